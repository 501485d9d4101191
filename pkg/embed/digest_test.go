package embed

// hashDigest is of the vectors of hash-1, see TestHashBits.
const hashDigest = "fa567d9d4ebe8e2d"
