package milvus

// Old releases of this module hold packages that grpc takes from a module of their own; the client library asks for an old one. Importing one of its packages
// keeps a release in go.mod that does not hold them.
import _ "google.golang.org/genproto/protobuf/ptype"
