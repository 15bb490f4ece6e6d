import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { buildRoutesConfig, sendChat } from '../test/support/chat.ts'
import { PROGRAM, type Server, startServer } from '../test/support/server.ts'
import {
  completion,
  delta,
  done,
  finish,
  type Script,
  sseHead,
  startUpstream,
} from '../test/support/upstream.ts'

/*
 * Has the kernel (by strace) hold one write to the log for four seconds while a stream runs, calls
 * come, and `/health` is asked, and prints the longest waits beside those of a run without that.
 * Ends with 1 where the stream or `/health` waited for the disk.
 */

const DELAY_MS = 4_000
/** Which write to the log is held: those before are of the start and of the first calls. */
const HELD = 10
const SECONDS = 8
const PAUSE_MS = 50
const CALL_MS = 200
/** In milliseconds: a stream and `/health` may be as late. */
const LATE = DELAY_MS / 4

interface Waits {
  chunk: number
  health: number
  call: number
  refused: number
}

const STREAM: Script = [
  sseHead(),
  ...Array.from(
    { length: (SECONDS * 1_000) / PAUSE_MS },
    (): Script => [delta('word '), { ms: PAUSE_MS }],
  ),
  ...[finish(), done(), '0\r\n\r\n'],
]

async function measure(injection: string[]): Promise<Waits> {
  await using upstream = await startUpstream()
  upstream.answer(({ body }) => (body.includes('"stream":true') ? STREAM : completion('Hello')))
  const config = buildRoutesConfig({ 'acme/small': { local: upstream.url } })
  const data = mkdtempSync(join(tmpdir(), 'gateway-slow-disk-'))
  const traced = ['strace', '-D', '-f', '-qq', '-o', '/dev/null', '-e', 'trace=write']
  const logs = ['log.1', 'log.2'].flatMap(name => ['-P', join(data, name)])
  const program = [...traced, ...injection, ...logs, ...PROGRAM]
  const server = await startServer({ config, data, program })
  try {
    return await load(server)
  } finally {
    const { stderr } = await server.stop()
    if (stderr.includes('"store.slow"')) process.stdout.write('The log says store.slow. ')
    rmSync(data, { recursive: true, force: true })
  }
}

async function load(server: Server): Promise<Waits> {
  const waits: Waits = { chunk: 0, health: 0, call: 0, refused: 0 }
  const note = (name: 'chunk' | 'health' | 'call', since: number): number => {
    const now = performance.now()
    waits[name] = Math.max(waits[name], now - since)
    return now
  }
  const end = performance.now() + SECONDS * 1_000
  const askHealth = async () => {
    for (let at = performance.now(); at < end; await Bun.sleep(PAUSE_MS), at = performance.now()) {
      await fetch(`${server.url}/health`)
      note('health', at)
    }
  }
  const makeCall = async () => {
    const at = performance.now()
    const { status } = await sendChat(server, {}).outcome()
    note('call', at)
    if (status === 503) waits.refused += 1
  }
  const makeCalls = async () => {
    const calls: Promise<void>[] = []
    for (; performance.now() < end; await Bun.sleep(CALL_MS)) calls.push(makeCall())
    await Promise.all(calls)
  }
  const readStream = async () => {
    const answer = await fetch(`${server.base}/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${server.inference_key}` },
      body: JSON.stringify({
        ...{ model: 'acme/small', stream: true },
        messages: [{ role: 'user', content: 'Hi' }],
      }),
    })
    let at = performance.now()
    // Its end says that the call is on record, and waits for the disk as a call does.
    for await (const chunk of answer.body ?? [])
      if (new TextDecoder().decode(chunk).includes('word')) at = note('chunk', at)
  }
  await Promise.all([askHealth(), makeCalls(), readStream()])
  return waits
}

const render = ({ chunk, health, call, refused }: Waits): string =>
  `longest waits in ms: chunk ${chunk.toFixed(0)}, /health ${health.toFixed(0)}, ` +
  `call ${call.toFixed(0)}; ${refused} calls refused\n`

process.stdout.write(`as it is: ${render(await measure([]))}`)
const delay = `inject=write:delay_enter=${DELAY_MS * 1_000}:when=${HELD}`
const held = await measure(['-e', delay])
process.stdout.write(`one write held ${DELAY_MS} ms: ${render(held)}`)
if (held.chunk > LATE || held.health > LATE) process.exit(1)
