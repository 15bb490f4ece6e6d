/**
 * A process that kills itself at a step of writing or deleting a blob, as the kernel would:
 * `bun killed-blobs.ts STEP DIRECTORY RECORD [ENDPOINT]`. The file RECORD stands for the blob's
 * record. With an endpoint, the blobs are in the bucket `files` there.
 */
import { rmSync, writeFileSync } from 'node:fs'
import { openDiskBlobs } from '../../src/store/blobs/disk.ts'
import { openBucketBlobs } from './bucket.ts'

const [step = '', directory = '', record = '', endpoint] = process.argv.slice(2)
const place = { workspace_id: '019aa000-0000-7000-8000-0000000000aa', name: 'abcd' }

/** Ends the process if this is the step. */
const reach = (name: string) => {
  if (name === step) process.kill(process.pid, 'SIGKILL')
}

const store = endpoint
  ? openBucketBlobs({ endpoint, directory, prefix: 'killed' }, { onSent: () => reach('sent') })
  : openDiskBlobs(directory)
const draft = await store.create(place)
reach('created')
await draft.write(Buffer.from('Hello'))
reach('written')
await draft.keep(async () => {
  reach('renamed')
  writeFileSync(record, '')
  reach('recorded')
})
reach('kept')
await store.remove(place, async () => {
  reach('noted')
  rmSync(record)
  reach('unrecorded')
})
reach('removed')
