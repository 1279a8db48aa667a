package m3

// Version is m3's own version, as it tells servers and writes into stores.
const Version = "0.1.0"
