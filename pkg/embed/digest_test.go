package embed

// hashDigest is of the vectors of hash-1, see TestHashBits.
const hashDigest = "ca493240811595a2"
