/**
 * A process whose files are on a disk of 2 MiB: `bun full-disk.ts DIRECTORY`. It fills that by an
 * upload, by a command and by a promotion, and prints what came of it as JSON.
 */
import { appendFileSync, mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { openGateway } from '../../src/app/gateway.ts'
import { Cancellation } from '../../src/base/cancellation.ts'
import { parseConfig } from '../../src/config.ts'
import { runCommands } from '../../src/network/containers/commands.ts'
import { buildFileId } from '../../src/network/containers/names.ts'
import { listContainerFiles, promoteContainerFile } from '../../src/network/containers.ts'
import { getOperator } from '../../src/resources/actor.ts'
import { deleteFile, listFiles, storeFile } from '../../src/resources/files.ts'
import { FakeSandbox } from './sandboxes/fake.ts'

const [directory = ''] = process.argv.slice(2)
const data = join(directory, 'data')
const files = join(data, 'files')
mkdirSync(files, { recursive: true, mode: 0o700 })
const mounted = Bun.spawnSync([
  'mount',
  '-t',
  'tmpfs',
  '-o',
  'size=2m,nr_inodes=200,mode=0700',
  'small',
  files,
])
if (!mounted.success) throw new Error(mounted.stderr.toString())

const gateway = await openGateway({
  data,
  sandboxes: [new FakeSandbox()],
  config: parseConfig(JSON.stringify({ sandbox: { kind: 'just-bash' } }), {}),
})
const operator = getOperator(gateway)
const { workspace_id } = operator

async function* pieces(size: number) {
  for (let sent = 0; sent < size; sent += 65_536) yield Buffer.alloc(65_536, 'a')
}
const outcomes: unknown[] = []
/** Tries something, and notes its outcome and what is there afterwards. */
async function attempt(name: string, work: () => Promise<unknown>): Promise<void> {
  const outcome = await work().then(
    () => 'done',
    thrown => `${thrown.status} ${thrown.message}`,
  )
  const stored = readdirSync(files, { recursive: true, withFileTypes: true }).filter(
    ({ name }) => !/^(filler|name-)/.test(name),
  )
  const homes = await listContainerFiles(gateway, operator, 'mine').catch(() => ({ data: [] }))
  outcomes.push({
    ...{ name, outcome, blobs: stored.filter(entry => entry.isFile()).length },
    listed: (await listFiles(gateway, operator, {})).data.length,
    home: homes.data.map(({ path, bytes }) => `${path} ${bytes}`),
  })
}
const upload = (size: number) => storeFile(gateway, operator, { filename: 'a.txt' }, pieces(size))
const run = (...commands: string[]) =>
  runCommands(gateway, {
    ...{ workspace_id, holder: 'k', name: 'mine', file_ids: [], hosts: [], commands },
    ...{ timeoutMs: 1_000, maxOutput: 100, cancellation: new Cancellation() },
  })
const MIB = 1024 * 1024

await attempt('an upload that is too large', () => upload(3 * MIB))
await attempt('a command that writes what fits', () => run(`large a ${MIB}`))
await attempt('a command that writes too much', () => run(`large a ${3 * MIB}`))
await attempt('an upload beside it', () => upload(0.5 * MIB))
await attempt('a promotion that does not fit', () =>
  promoteContainerFile(gateway, operator, 'mine', buildFileId('a')),
)
const [first] = (await listFiles(gateway, operator, {})).data as { id: string }[]
// The rest of the disk, and of its list of names, which a note would take.
for (let size = MIB; size > 0; size = Math.floor(size / 2))
  try {
    appendFileSync(join(files, 'part', 'filler'), Buffer.alloc(size))
  } catch {
    // No room for so much.
  }
for (let i = 0; i < 200; i++)
  try {
    writeFileSync(join(files, 'part', `name-${i}`), '')
  } catch {
    break
  }
await attempt('a deletion', () => deleteFile(gateway, operator, first?.id ?? ''))
for (const name of readdirSync(join(files, 'part')))
  if (/^(filler|name-)/.test(name)) rmSync(join(files, 'part', name))
await attempt('a command that removes', () => run('remove a'))
await attempt('an upload that fits now', () => upload(1.5 * MIB))
await gateway.close()
process.stdout.write(JSON.stringify(outcomes))
