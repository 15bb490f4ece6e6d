import { createDefaultConfig } from '../../src/config.ts'
import { type BucketWorld, openBucket } from '../../src/network/bucket.ts'
import { openEgress } from '../../src/network/egress.ts'
import { openS3Blobs } from '../../src/store/blobs/s3.ts'

/** The keys of s3rver, which it knows by the id. */
export const BUCKET_KEYS = { access_key_id: 'S3RVER', secret_access_key: 'S3RVER' }

/** Where the blobs of a test are. */
interface BucketPlace {
  endpoint: string
  directory: string
  prefix: string
}

/** Makes what a bucket needs, with the egress of a gateway. `onSent` hears of each PUT. */
export const createBucketWorld = ({ onSent }: { onSent?: () => void } = {}): BucketWorld => {
  const send = openEgress(createDefaultConfig)
  return {
    send: (outgoing, cancellation) =>
      send(outgoing.method === 'PUT' && onSent ? { ...outgoing, onSent } : outgoing, cancellation),
    clock: { now: () => new Date() },
    readPatience: () => 60_000,
  }
}

/** Opens a store of blobs in the bucket `files` of a server. */
export const openBucketBlobs = (
  { endpoint, directory, prefix }: BucketPlace,
  options: { onSent?: () => void } = {},
) => {
  const config = { endpoint, bucket: 'files', prefix, region: 'us-east-1', ...BUCKET_KEYS }
  return openS3Blobs(openBucket(createBucketWorld(options), config), prefix, directory)
}
