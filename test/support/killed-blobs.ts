/**
 * A process that kills itself at a step of writing or deleting a blob, as the kernel would:
 * `bun killed-blobs.ts STEP DIRECTORY RECORD`. The file RECORD stands for the blob's record.
 */
import { rmSync, writeFileSync } from 'node:fs'
import { openDiskBlobs } from '../../src/core/store/blobs/disk.ts'

const [step = '', directory = '', record = ''] = process.argv.slice(2)
const place = { workspace_id: '019aa000-0000-7000-8000-0000000000aa', name: 'abcd' }

/** Ends the process if this is the step. */
const reach = (name: string) => {
  if (name === step) process.kill(process.pid, 'SIGKILL')
}

const store = openDiskBlobs(directory)
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
