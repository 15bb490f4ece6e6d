/**
 * A process whose whole data directory is on a disk of 8 MiB: `bun full-data-disk.ts DIRECTORY`. It
 * fills that to the last byte, deletes what is stored, and prints what came of it as JSON.
 */
import { appendFileSync, mkdirSync, readdirSync, rmSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { examineGateway } from '../../src/app/doctor.ts'
import { openGateway } from '../../src/app/gateway.ts'
import { getOperator } from '../../src/resources/actor.ts'
import { deleteFile, storeFile } from '../../src/resources/files.ts'
import { createKey } from '../../src/resources/keys.ts'

const [directory = ''] = process.argv.slice(2)
const data = join(directory, 'data')
mkdirSync(data, { mode: 0o700 })
const mounted = Bun.spawnSync(['mount', '-t', 'tmpfs', '-o', 'size=8m,mode=0700', 'small', data])
if (!mounted.success) throw new Error(mounted.stderr.toString())

const gateway = await openGateway({ data, access: 'server' })
const operator = getOperator(gateway)
await gateway.writeLog.keepShort()

async function* content() {
  yield Buffer.from('text')
}
const upload = () => storeFile(gateway, operator, { filename: 'a.txt' }, content())
const stored = [await upload(), await upload(), await upload()] as { id: string }[]
function fill(): void {
  for (let size = 1024 * 1024; size > 0; size = Math.floor(size / 2))
    for (;;)
      try {
        appendFileSync(join(data, 'filler'), Buffer.alloc(size))
      } catch {
        break
      }
}
const attempt = (work: () => Promise<unknown>) =>
  work().then(
    () => 'done',
    thrown => `${thrown.code ?? thrown.status}`,
  )
const rounds: unknown[] = []
for (const { id } of stored) {
  fill()
  const key = await attempt(() => createKey(gateway, operator, { name: 'k' }))
  rounds.push({ key, deletion: await attempt(() => deleteFile(gateway, operator, id)) })
}
fill()
await gateway.close()
const leftovers = readdirSync(data).filter(name => name.endsWith('.new'))
rmSync(join(data, 'filler'))

const again = await openGateway({ data, access: 'server' })
await again.writeLog.keepShort()
const { data: checks } = await examineGateway(again)
const summary = {
  ...{ rounds, leftovers, left: (await again.store.files.all()).length },
  doctor: checks.filter(({ ok }) => !ok),
  reserve: statSync(join(data, 'gateway.reserve')).size,
}
await again.close()
process.stdout.write(JSON.stringify(summary))
