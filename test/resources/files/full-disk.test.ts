import { expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { hasMounts, NAMESPACE } from '../../support/mounts.ts'

const WHY_SKIPPED = hasMounts ? '' : ' (no file system can be mounted here)'

/** Runs a script with a directory in which it may mount a disk. Returns what it prints. */
async function runMounting<Printed>(name: string): Promise<Printed> {
  const directory = mkdtempSync(join(tmpdir(), 'gateway-full-'))
  const script = join(import.meta.dir, '../../support', name)
  const child = Bun.spawn([...NAMESPACE, process.execPath, script, directory], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const printed = await new Response(child.stdout).json()
  rmSync(directory, { recursive: true, force: true })
  return printed
}

test.skipIf(!hasMounts)(`a disk that is full leaves nothing half-done${WHY_SKIPPED}`, async () => {
  const outcomes = await runMounting<unknown>('full-disk.ts')
  const full = '503 The storage of files is full'
  const home = ['a 1048576']
  expect(outcomes).toEqual([
    { name: 'an upload that is too large', outcome: full, blobs: 0, listed: 0, home: [] },
    { name: 'a command that writes what fits', outcome: 'done', blobs: 1, listed: 0, home },
    { name: 'a command that writes too much', outcome: full, blobs: 1, listed: 0, home },
    { name: 'an upload beside it', outcome: 'done', blobs: 2, listed: 1, home },
    { name: 'a promotion that does not fit', outcome: full, blobs: 2, listed: 1, home },
    { name: 'a deletion', outcome: 'done', blobs: 1, listed: 0, home },
    { name: 'a command that removes', outcome: 'done', blobs: 0, listed: 0, home: [] },
    { name: 'an upload that fits now', outcome: 'done', blobs: 1, listed: 1, home: [] },
  ])
})

test.skipIf(!hasMounts)(
  `S-03 files are deleted from a disk without a free byte${WHY_SKIPPED}`,
  async () => {
    const { rounds, ...rest } = await runMounting<Record<string, unknown>>('full-data-disk.ts')
    expect(rounds).toEqual(Array(3).fill({ key: 'SQLITE_FULL', deletion: 'done' }))
    // The guard of the ledger could not be written, and leaves no half of a file.
    expect(rest).toEqual({ leftovers: [], left: 0, doctor: [], reserve: 1024 * 1024 })
  },
)
