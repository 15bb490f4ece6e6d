/**
 * Measures what an upload takes in memory: `bun run bench/files.ts [MEGABYTES] [AT_ONCE]`, 99 and 1
 * without arguments. Prints how much more the server has at its highest than it had when idle, for
 * text, which is judged as it comes, and for a picture. `GATEWAY_TEST_BINARY` names the program.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { startServer } from '../test/support/server.ts'

const [megabytes = '99', atOnce = '1'] = process.argv.slice(2)
const MEGABYTES = Number(megabytes)
const AT_ONCE = Number(atOnce)
if (!Number.isInteger(MEGABYTES) || MEGABYTES < 1 || MEGABYTES > 104)
  throw new Error('expected a number of megabytes, at most 104')
if (!Number.isInteger(AT_ONCE) || AT_ONCE < 1) throw new Error('expected a number of uploads')

const START = '--X\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n'
const PNG = Buffer.from('89504e470d0a1a0a0000000d49484452', 'hex')

/** Makes a form whose file has so many megabytes. */
async function* makeForm(start: Buffer, fill: string): AsyncGenerator<Uint8Array> {
  yield Buffer.from(START)
  yield start
  const piece = Buffer.alloc(100_000, fill)
  for (let i = 0; i < MEGABYTES * 10 - 1; i++) yield Uint8Array.from(piece)
  yield Buffer.from('\r\n--X--')
}

/** Reads a line of what the kernel says of a process, in megabytes. */
const readMemory = (pid: number, name: string): number =>
  (Number(new RegExp(`${name}:\\s+(\\d+)`).exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) *
    1024) /
  1e6

async function measure(name: string, start: Buffer, fill: string): Promise<void> {
  await using server = await startServer()
  const { pid } = server.process
  const headers = { 'content-type': 'multipart/form-data; boundary=X' }
  const upload = async (body: BodyInit) =>
    (await server.fetch('/files', { method: 'POST', headers, body })).status
  // The first upload loads what all need.
  await upload(`${START}warm\r\n--X--`)
  const idle = readMemory(pid, 'VmRSS')
  // The kernel counts its highest memory from now on.
  writeFileSync(`/proc/${pid}/clear_refs`, '5')
  const sent = Array.from({ length: AT_ONCE }, () => upload(makeForm(start, fill) as never))
  const statuses = await Promise.all(sent)
  const most = readMemory(pid, 'VmHWM')
  process.stdout.write(
    `${name}: ${AT_ONCE} of ${MEGABYTES} MB at once (${[...new Set(statuses)]}): ` +
      `${(most - idle).toFixed(1)} MB above the ${idle.toFixed(1)} MB of an idle server\n`,
  )
}

await measure('text', Buffer.from('# A text\n'), 'a line of text\n')
await measure('a picture', PNG, '\0')
