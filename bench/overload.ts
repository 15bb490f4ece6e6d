import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import type { Socket } from 'bun'
import { type Child, pinSelf } from '../src/cli/bench/children.ts'
import { createCpuReader, readResidentMb } from '../src/cli/bench/procfs.ts'
import { computePercentile } from '../src/cli/bench/statistics.ts'
import { MODEL, renderPost, renderRequest, type Target } from '../src/cli/bench/wire.ts'
import {
  CORES,
  type Contender,
  ensureGateway,
  initGateway,
  renderSingleModelConfig,
  startGateway,
  startUpstream,
} from './contenders.ts'

const USAGE = `bun run bench/overload.ts [bodies] [answers] [unread] [health] [streams] [goodput] [busy]

Overloads dist/gateway (or GATEWAY_BIN), each part with a fresh process, and prints what it took and
what it did. Ends with 1 if a limit is broken.
`

/** In MB of resident memory, ms and shares: what must hold. */
const LIMITS = {
  ...{ bodiesMb: 1_000, answersMb: 750, unreadMb: 560, healthMs: 100, streamsMb: 200 },
  goodput: 0.9,
}

const BODIES = { count: 60, bytes: 20 * 1024 * 1024 }
const ANSWERS = { count: 100, characters: 20 * 1024 * 1024 }
/** Clients that read nothing of their streams, the characters of each event, and for how long. */
const UNREAD = { count: 300, characters: 32 * 1024, seconds: 20 }
const CLIENTS = 4_000
const STREAMS = 2_000

/** Calls in flight at which a gateway is full, and the milliseconds that its provider takes. */
const PLACES = 100
const SLOW_MS = 250
const IN_FLIGHT = `limits: { in_flight: ${PLACES} }\n`

// The benchmark always ends, and its children end with it.
const LONGEST_MS = 5 * 60_000

/** How long calls are offered before those that are answered count. */
const WARM_SECONDS = 2

type Part = (home: string) => Promise<boolean>

const PARTS: Record<string, Part> = {
  bodies: home => withGateway(home, 'heavy-upstream.ts', measureBodies),
  answers: home => withGateway(home, 'heavy-upstream.ts', measureAnswers),
  unread: home => withGateway(home, 'heavy-upstream.ts', measureUnread),
  health: home => withGateway(home, undefined, measureHealth),
  streams: home => withGateway(home, 'heavy-upstream.ts', measureStreams),
  goodput: home => withGateway(home, 'heavy-upstream.ts', measureGoodput, IN_FLIGHT),
  busy: home => withGateway(home, undefined, measureBusy),
}

async function main(): Promise<void> {
  const { positionals } = parseArgs({ allowPositionals: true, options: {} })
  const unknown = positionals.find(name => !Object.hasOwn(PARTS, name))
  if (unknown !== undefined) {
    process.stderr.write(`${unknown}: no such part\n${USAGE}`)
    process.exit(2)
  }
  setTimeout(() => process.exit(1), LONGEST_MS).unref()
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const)
    process.once(signal, () => process.exit(1))
  await ensureGateway()
  pinSelf(CORES.tools)
  const home = mkdtempSync(join(tmpdir(), 'gateway-overload-'))
  process.once('exit', () => rmSync(home, { recursive: true, force: true }))
  let isGood = true
  for (const name of positionals.length > 0 ? positionals : Object.keys(PARTS))
    isGood = ((await PARTS[name]?.(join(home, name))) ?? false) && isGood
  print(isGood ? 'Within its limits.' : 'A limit is broken.')
  process.exit(isGood ? 0 : 1)
}

async function withGateway(
  home: string,
  program: string | undefined,
  measure: (gateway: Contender) => Promise<boolean>,
  settings = '',
): Promise<boolean> {
  const upstream: Child = await startUpstream(home, {}, program)
  const config = settings + renderSingleModelConfig(upstream).replace('128000', '100000000')
  const key = await initGateway(config, home)
  const gateway = await startGateway(key, home)
  try {
    return await measure(gateway)
  } finally {
    await Promise.all([gateway.stop('SIGKILL'), upstream.stop('SIGKILL')])
  }
}

/** Sends large bodies at once. */
async function measureBodies(gateway: Contender): Promise<boolean> {
  const request = renderChat(gateway.target, { prompt: 'x'.repeat(BODIES.bytes) })
  const { peak, statuses } = await flood(gateway, request, BODIES.count)
  print(`${BODIES.count} bodies of 20 MiB: peak ${peak.toFixed(0)} MB, ${statuses}`)
  return expectAtMost('MB', peak, LIMITS.bodiesMb)
}

/** Asks for large whole answers at once. */
async function measureAnswers(gateway: Contender): Promise<boolean> {
  const request = renderChat(gateway.target, { prompt: `answer=${ANSWERS.characters}` })
  const { peak, statuses } = await flood(gateway, request, ANSWERS.count)
  print(`${ANSWERS.count} whole answers of 20 MiB: peak ${peak.toFixed(0)} MB, ${statuses}`)
  return expectAtMost('MB', peak, LIMITS.answersMb)
}

/** Opens streams that nobody reads: memory of the process, and what waits in the system's sockets. */
async function measureUnread({ pid, target }: Contender): Promise<boolean> {
  const { hostname, port } = new URL(target.url)
  const prompt = `event=${UNREAD.characters}`
  const request = renderChat(target, { prompt, stream: true })
  const memory = watchMemory({ pid } as Contender)
  const sockets = await Promise.all(
    Array.from({ length: UNREAD.count }, () =>
      Bun.connect({
        ...{ hostname, port: Number(port) },
        socket: {
          open(socket) {
            socket.write(request)
            socket.pause()
          },
          data() {},
        },
      }),
    ),
  )
  let unsent = 0
  for (let second = 0; second < UNREAD.seconds; second++) {
    await Bun.sleep(1_000)
    unsent = Math.max(unsent, readUnsentMb(Number(port)))
  }
  const peak = memory()
  for (const socket of sockets) socket.terminate()
  print(
    `${UNREAD.count} streams that nobody reads, ${UNREAD.seconds} s: ` +
      `peak ${peak.toFixed(0)} MB, ${unsent.toFixed(0)} MB in sockets`,
  )
  return expectAtMost('MB', peak + unsent, LIMITS.unreadMb)
}

/** Reads how much waits in the system to be taken from a port, in MB. */
function readUnsentMb(port: number): number {
  const local = port.toString(16).toUpperCase().padStart(4, '0')
  const lines = ['/proc/net/tcp', '/proc/net/tcp6'].flatMap(path =>
    readFileSync(path, 'utf8').split('\n'),
  )
  const waiting = new RegExp(`^ *\\d+: [0-9A-F]+:${local} \\S+ \\S+ ([0-9A-F]+):`)
  const queues = lines.map(line => Number.parseInt(waiting.exec(line)?.[1] ?? '0', 16))
  return queues.reduce((sum, bytes) => sum + bytes, 0) / 1024 / 1024
}

async function flood(gateway: Contender, request: Buffer, count: number) {
  const memory = watchMemory(gateway)
  const health = watchHealth(gateway.target)
  const answers = await Promise.all(
    Array.from({ length: count }, () => send(gateway.target, request)),
  )
  const [peak, waits] = [memory(), await health()]
  print(
    `  /health meanwhile: p99 ${computePercentile(waits, 0.99).toFixed(0)} ms of ${waits.length}`,
  )
  const counts = new Map<string, number>()
  for (const { status, ms } of answers) {
    counts.set(status, (counts.get(status) ?? 0) + 1)
    if (status === 'lost' && process.env.DEBUG) print(`  lost after ${ms}`)
  }
  const slowest = Math.max(...answers.map(({ ms }) => ms))
  const statuses = [...counts].map(([status, times]) => `${times} × ${status}`).join(', ')
  return { peak, statuses: `${statuses}; the slowest took ${(slowest / 1000).toFixed(1)} s` }
}

/** Sends a request and reads the status and the end of its answer; `lost` without one. */
async function send(target: Target, request: Buffer): Promise<{ status: string; ms: number }> {
  const { hostname, port } = new URL(target.url)
  const done = Promise.withResolvers<string>()
  const began = performance.now()
  let [sent, head, length, received] = [0, '', -1, 0]
  const write = (socket: Socket) => {
    while (sent < request.length) {
      const taken = socket.write(request, sent, Math.min(request.length - sent, 1 << 18))
      if (taken <= 0) return
      sent += taken
    }
  }
  const receive = (socket: Socket, bytes: Buffer) => {
    received += bytes.length
    if (length < 0) {
      head += bytes.toString('latin1')
      const end = head.indexOf('\r\n\r\n')
      if (end < 0) return
      const stated = /content-length: *(\d+)/i.exec(head)?.[1]
      length = stated === undefined ? Number.POSITIVE_INFINITY : end + 4 + Number(stated)
    }
    if (received < length && !bytes.subarray(-5).equals(LAST_CHUNK)) return
    done.resolve(head.slice(9, 12))
    socket.terminate()
  }
  const close = () => done.resolve(head ? `${head.slice(9, 12)}, cut` : 'lost')
  await Bun.connect({
    hostname,
    port: Number(port),
    socket: { open: write, drain: write, data: receive, close, error: close },
  })
  return { status: await done.promise, ms: performance.now() - began }
}

const LAST_CHUNK = Buffer.from('0\r\n\r\n')

const renderChat = (target: Target, { prompt = 'Hello', stream = false }): Buffer =>
  renderPost(target, '/api/v1/chat/completions', {
    model: MODEL,
    messages: [{ role: 'user', content: prompt }],
    max_tokens: 400,
    stream,
  })

/** Watches the peak of resident memory. */
function watchMemory({ pid }: Contender): () => number {
  let peak = 0
  const look = () => {
    peak = Math.max(peak, readResidentMb(pid))
  }
  const timer = setInterval(look, 5)
  return () => {
    clearInterval(timer)
    look()
    return peak
  }
}

/** Asks for `/health` all the time, and returns the waits in ms. */
function watchHealth({ url }: Target): () => Promise<number[]> {
  const worker = new Worker(new URL('./health-watch.ts', import.meta.url).href)
  worker.postMessage(url)
  return () =>
    new Promise(resolve => {
      worker.onmessage = ({ data }) => {
        worker.terminate()
        resolve(data)
      }
      worker.postMessage('stop')
    })
}

/** Keeps 4,000 clients calling, each as soon as it is answered. */
async function measureHealth({ target, pid }: Contender): Promise<boolean> {
  const load = await openClients(target, CLIENTS)
  await Bun.sleep(2_000)
  load.reset()
  const health = watchHealth(target)
  const readCpu = createCpuReader(pid)
  await Bun.sleep(6_000)
  const cpu = readCpu()
  const waits = await health()
  const { good, refused, lost } = load.stop()
  const p99 = computePercentile(waits, 0.99)
  print(
    `${CLIENTS} closed-loop clients: /health p50 ${computePercentile(waits, 0.5).toFixed(0)} ms, ` +
      `p99 ${p99.toFixed(0)} ms of ${waits.length}; ` +
      `${(good / 6).toFixed(0)} answers and ${(refused / 6).toFixed(0)} refusals a second, ${lost} lost; ` +
      `${(cpu / (good + refused)).toFixed(0)} µs of CPU for each`,
  )
  return expectAtMost('ms', p99, LIMITS.healthMs)
}

/**
 * Compares what is answered at saturation with what is answered at three times as many calls. The
 * gateway is full by its limit of calls in flight before a slow provider, not by its processor: so
 * that two cores can offer three times as much.
 */
async function measureGoodput({ target }: Contender): Promise<boolean> {
  const request = renderChat(target, { prompt: `hold=${SLOW_MS}` })
  await measureRate(target, PLACES, 2, request)
  let peak = 0
  for (const clients of [0.9 * PLACES, PLACES, 1.2 * PLACES])
    peak = Math.max(peak, await measureRate(target, clients, 3, request))
  return compareOffered('goodput', peak, await offer(target, 3 * peak, 6, request))
}

/** The same with a quick provider, where the processor is what is used up, also by the clients. */
async function measureBusy({ target }: Contender): Promise<boolean> {
  await measureRate(target, 64, 2)
  let peak = 0
  for (const clients of [32, 64, 128]) peak = Math.max(peak, await measureRate(target, clients, 3))
  return compareOffered('busy', peak, await offer(target, 3 * peak, 6))
}

function compareOffered(name: string, peak: number, offered: Offered): boolean {
  const [good, share] = [offered.good / 6, offered.good / 6 / peak]
  print(
    `${name}: ${peak.toFixed(0)} calls/s at its peak; at ${offered.offered.toFixed(0)} offered a second ` +
      `(${(offered.offered / peak).toFixed(1)} ×) ${good.toFixed(0)} are answered (${(share * 100).toFixed(0)} %) ` +
      `and ${renderRefusals(offered)}`,
  )
  return share >= LIMITS.goodput
}

const renderRefusals = ({ refused, refusedP99 }: Offered): string =>
  refused === 0
    ? 'none refused'
    : `${(refused / 6).toFixed(0)} refused, in ${refusedP99.toFixed(1)} ms at p99`

async function measureRate(
  target: Target,
  clients: number,
  seconds: number,
  request?: Buffer,
): Promise<number> {
  const load = await openClients(target, clients, true, request)
  await Bun.sleep(500)
  load.reset()
  await Bun.sleep(seconds * 1000)
  return load.stop().good / seconds
}

/** Offers calls at a rate, whatever happens to those before: each takes a connection that is free. */
async function offer(target: Target, rate: number, seconds: number, request?: Buffer) {
  const clients = await openClients(target, CLIENTS, false, request)
  const offerFor = async (duration: number) => {
    const began = performance.now()
    let offered = 0
    while (performance.now() - began < duration * 1000) {
      const due = ((performance.now() - began) / 1000) * rate
      while (offered < due && clients.callOnce()) offered++
      await Bun.sleep(1)
    }
    return offered
  }
  // What begins here is answered later, and what is answered at the end began in time: the first
  // calls only fill the gateway.
  await offerFor(WARM_SECONDS)
  clients.reset()
  const offered = await offerFor(seconds)
  return { ...clients.stop(), offered: offered / seconds }
}

type Offered = Awaited<ReturnType<typeof offer>>

/** Opens clients. In a closed loop each calls again as soon as it is answered. */
async function openClients(
  target: Target,
  count: number,
  isLoop = true,
  request: string | Buffer = renderRequest(target, false),
) {
  const { hostname, port } = new URL(target.url)
  const tally = { good: 0, refused: 0, lost: 0 }
  const refusals: number[] = []
  const statuses = new Map<string, number>()
  const idle: (() => void)[] = []
  let isOver = false
  const open = async () => {
    let [received, needed, status, sentAt] = [0, -1, '', 0]
    let isDone = false
    const call = (socket: Socket) => {
      ;[received, needed] = [0, -1]
      sentAt = performance.now()
      socket.write(request)
    }
    const receive = (socket: Socket, bytes: Buffer) => {
      received += bytes.length
      if (needed < 0) {
        const end = bytes.indexOf('\r\n\r\n')
        status = bytes.toString('latin1', 9, 12)
        const head = bytes.toString('latin1', 0, end)
        needed = end + 4 + Number(/content-length: *(\d+)/i.exec(head)?.[1] ?? 0)
      }
      if (received < needed) return
      if (status === '200') tally.good++
      else {
        tally.refused++
        const why = process.env.DEBUG ? status + bytes.toString('latin1').slice(-160) : status
        statuses.set(
          why.replace(/req[^"]*"|gen-[^"]*"/g, ''),
          (statuses.get(why.replace(/req[^"]*"|gen-[^"]*"/g, '')) ?? 0) + 1,
        )
        refusals.push(performance.now() - sentAt)
      }
      if (isOver) socket.end()
      else if (isLoop) call(socket)
      else idle.push(() => call(socket))
    }
    const close = () => {
      if (!isOver && !isDone) tally.lost++
      isDone = true
    }
    const socket = await Bun.connect({
      hostname,
      port: Number(port),
      socket: { data: receive, close, error: close },
    })
    sockets.push(socket)
    if (isLoop) call(socket)
    else idle.push(() => call(socket))
  }
  const sockets: Socket[] = []
  for (let opened = 0; opened < count; opened += 100)
    await Promise.all(Array.from({ length: Math.min(100, count - opened) }, open))
  return {
    callOnce: () => {
      idle.shift()?.()
      return idle.length > 0
    },
    reset: () => Object.assign(tally, { good: 0, refused: 0, lost: 0 }),
    stop() {
      isOver = true
      for (const socket of sockets) socket.terminate()
      if (process.env.DEBUG) print(JSON.stringify([...statuses]))
      return { ...tally, refusedP99: computePercentile(refusals, 0.99) }
    },
  }
}

/** Keeps 2,000 streams open, each with an event a second. */
async function measureStreams(gateway: Contender): Promise<boolean> {
  const request = renderChat(gateway.target, { stream: true })
  const { hostname, port } = new URL(gateway.target.url)
  const memory = watchMemory(gateway)
  const live = new Set<Socket>()
  const open = () =>
    Bun.connect({
      hostname,
      port: Number(port),
      socket: {
        open: socket => void socket.write(request),
        data: (socket, bytes) => void (bytes.includes('work') && live.add(socket)),
        close: socket => void live.delete(socket),
      },
    })
  const sockets: Socket[] = []
  for (let opened = 0; opened < STREAMS; opened += 50) {
    sockets.push(...(await Promise.all(Array.from({ length: 50 }, open))))
    await Bun.sleep(20)
  }
  await Bun.sleep(8_000)
  const peak = memory()
  print(`${live.size} live streams: peak ${peak.toFixed(0)} MB`)
  const isGood = live.size === STREAMS
  for (const socket of sockets) socket.terminate()
  return expectAtMost('MB', peak, LIMITS.streamsMb) && isGood
}

const expectAtMost = (_unit: string, found: number, limit: number): boolean => found <= limit

function print(line: string): void {
  process.stdout.write(`${line}\n`)
}

await main()
