import { expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { hasMounts, NAMESPACE } from '../../support/mounts.ts'

test.skipIf(!hasMounts)(
  `a disk that is full leaves nothing half-done${hasMounts ? '' : ' (no file system can be mounted here)'}`,
  async () => {
    const directory = mkdtempSync(join(tmpdir(), 'gateway-full-'))
    const script = join(import.meta.dir, '../../support/full-disk.ts')
    const child = Bun.spawn([...NAMESPACE, process.execPath, script, directory], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    const outcomes = await new Response(child.stdout).json()
    rmSync(directory, { recursive: true, force: true })
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
  },
)
