import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { type Child, startChild } from '../src/cli/bench/children.ts'
import { createCpuReader } from '../src/cli/bench/procfs.ts'
import { computePercentile } from '../src/cli/bench/statistics.ts'

/*
 * `bun run bench/tui.ts [--calls 200] [--seconds 8]`: what the terminal UI costs, in percent of a
 * core, at so many calls a second and idle, with the frames that it writes; and what listeners of
 * the feed cost the server, as ratios of its CPU time for a call: one that reads, and one that has
 * stopped reading. It drives dist/gateway.
 */

const PROGRAM = resolve(import.meta.dir, '../dist/gateway')
const SIZE = { cols: 120, rows: 30 }
/** In milliseconds: what comes closer together is one frame. */
const FRAME_GAP = 20
const ROUNDS = 5
const CALLS_OF_A_ROUND = 1_500
/** The most percent of a core, and of frames a second. */
const LIMITS = { busy: 5, idle: 1, frames: 10 }
/** How much more a call may cost the server while a listener does not read. */
const MOST_STALLED = 1.05

interface Place {
  data: string
  server: Child
  key: string
}

async function main(): Promise<void> {
  const [calls, seconds] = [readOption('--calls', 200), readOption('--seconds', 8)]
  const home = mkdtempSync(join(tmpdir(), 'gateway-bench-tui-'))
  const data = join(home, 'data')
  const init = Bun.spawnSync([PROGRAM, 'init', '--data', data, '--field', 'inference_key'])
  const server = await startChild({
    ...{ name: 'server', core: 0, home },
    command: [PROGRAM, 'serve', '--data', data, '--port', '0', '--log', 'json', '--no-access-log'],
  })
  const place = { data, server, key: init.stdout.toString().trim() }
  const results = [await measureScreen(place, calls, seconds), await measureListeners(place)]
  const isWithin = results.every(Boolean)
  await server.stop()
  rmSync(home, { recursive: true })
  print(isWithin ? 'Within its limits.' : 'A limit is broken.')
  process.exit(isWithin ? 0 : 1)
}

function readOption(name: string, initial: number): number {
  const index = process.argv.indexOf(name)
  const value = index === -1 ? initial : Number(process.argv[index + 1])
  if (Number.isFinite(value) && value > 0) return value
  throw new Error(`${name}: expected a number above 0`)
}

/** The terminal UI on a terminal of its own. */
function openScreen({ data }: Place) {
  const written: number[] = []
  let bytes = 0
  const child = Bun.spawn([PROGRAM, 'tui', '--data', data], {
    env: { ...process.env, TERM: 'xterm-256color', CI: 'false' },
    terminal: {
      ...SIZE,
      data: (_, piece) => {
        bytes += piece.length
        const now = performance.now()
        if (now - (written.at(-1) ?? 0) > FRAME_GAP) written.push(now)
      },
    },
  })
  return {
    type: (keys: string) => void child.terminal?.write(keys),
    /** Measures for so many seconds: percent of a core, frames and bytes a second. */
    async measure(seconds: number) {
      const [frames, before, began] = [written.length, bytes, performance.now()]
      const readCpu = createCpuReader(child.pid)
      await Bun.sleep(seconds * 1000)
      const took = (performance.now() - began) / 1000
      return {
        percent: readCpu() / took / 10_000,
        frames: (written.length - frames) / took,
        bytes: (bytes - before) / took,
      }
    },
    async close() {
      child.terminal?.write('q')
      await child.exited
    },
  }
}

const VIEWS = ['Calls', 'Endpoints', 'Money', 'Keys', 'Overview'] as const

async function measureScreen(place: Place, calls: number, seconds: number): Promise<boolean> {
  const screen = openScreen(place)
  // What the start has left to do, as compiling, is not what an idle screen costs.
  await Bun.sleep(6_000)
  const idle = await screen.measure(seconds)
  print(`idle: ${describe(idle)}`)
  const stop = startLoad(place, calls)
  let isWithin = idle.percent < LIMITS.idle
  await Bun.sleep(3_000)
  for (const [index, view] of VIEWS.entries()) {
    screen.type(String(index + 1))
    await Bun.sleep(1_000)
    const busy = await screen.measure(seconds)
    print(`${view} at ${calls} calls/s: ${describe(busy)}`)
    isWithin &&= busy.percent < LIMITS.busy && busy.frames <= LIMITS.frames
  }
  print(`calls made: ${(await stop()).toFixed(0)} a second`)
  await screen.close()
  return isWithin
}

const describe = ({ percent, frames, bytes }: Record<'percent' | 'frames' | 'bytes', number>) =>
  `${percent.toFixed(1)} % of a core, ${frames.toFixed(1)} frames/s, ${(bytes / 1000).toFixed(1)} kB/s`

/** Makes so many calls a second until it is stopped, which returns how many a second there were. */
function startLoad({ server: { url }, key }: Place, calls: number): () => Promise<number> {
  const began = performance.now()
  let made = 0
  const timer = setInterval(() => {
    const due = ((performance.now() - began) / 1000) * calls
    while (made < due) {
      made++
      void call(url, key)
    }
  }, 20)
  return async () => {
    clearInterval(timer)
    return made / ((performance.now() - began) / 1000)
  }
}

const BODY = JSON.stringify({
  model: 'sandbox/echo',
  messages: [{ role: 'user', content: 'What is the weather like where you are?' }],
})

async function call(url: string, key: string): Promise<void> {
  const response = await fetch(`${url}/api/v1/chat/completions`, {
    ...{ method: 'POST', body: BODY },
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
  })
  await response.arrayBuffer()
}

/** Opens the feed over the socket of the data directory, and reads it or does not. */
async function listen(data: string, isRead: boolean): Promise<() => void> {
  const socket = await Bun.connect({
    unix: join(data, 'serve.sock'),
    socket: { data: () => undefined },
  })
  socket.write('{"do":"watch"}\n')
  await Bun.sleep(100)
  if (!isRead) socket.pause()
  return () => void socket.end()
}

const LISTENERS = {
  nobody: async () => () => undefined,
  'one that reads': ({ data }: Place) => listen(data, true),
  'one that has stopped reading': ({ data }: Place) => listen(data, false),
}

async function measureListeners(place: Place): Promise<boolean> {
  const costs: Record<string, number[]> = {}
  for (let round = 0; round <= ROUNDS; round++)
    for (const [name, open] of Object.entries(LISTENERS)) {
      const close = await open(place)
      // What waits for a listener that does not read is full after some calls.
      await makeCalls(place, CALLS_OF_A_ROUND)
      const readCpu = createCpuReader(place.server.pid)
      await makeCalls(place, CALLS_OF_A_ROUND)
      const cost = readCpu() / CALLS_OF_A_ROUND
      // The first round warms up.
      if (round > 0) costs[name] = [...(costs[name] ?? []), cost]
      close()
    }
  const medians = Object.entries(costs).map(
    ([name, all]) => [name, computePercentile(all, 0.5)] as const,
  )
  const [, base] = medians[0] ?? ['', 1]
  for (const [name, median] of medians)
    print(
      `server with ${name}: ${median.toFixed(0)} µs of CPU a call, ${(median / base).toFixed(2)} times`,
    )
  return (medians[2]?.[1] ?? 0) / base < MOST_STALLED
}

const AT_ONCE = 8

async function makeCalls({ server: { url }, key }: Place, count: number): Promise<void> {
  let left = count
  const work = async () => {
    while (left-- > 0) await call(url, key)
  }
  await Promise.all(Array.from({ length: AT_ONCE }, work))
}

const print = (line: string): void => void process.stdout.write(`${line}\n`)

await main()
