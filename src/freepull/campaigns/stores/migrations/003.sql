-- Parts of snapshots are kept as they are: to compress one takes PostgreSQL seven times as long as to write it.
{uncompressed};
