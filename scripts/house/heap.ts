import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { enableEverything, type Home, initGateway } from '../../src/cli/bench/contenders.ts'
import { createTracedCall, sendCall, type TraceOptions } from '../trace/call.ts'
import { createTraceConfig, startProvider, type TraceProvider } from '../trace/provider.ts'
import type { HeapGrowth } from './heap-probe.ts'

/** What calls make on the thread that serves them, for each call or chunk. */
export interface HeapFigures {
  bytes_of_a_call: number
  bytes_of_a_call_with_everything: number
  bytes_of_a_call_of_101_messages: number
  bytes_of_a_chunk: number
  promises_of_a_call: number
  promises_of_a_call_with_everything: number
  promises_of_a_streamed_call: number
  /** With one decimal: of a hundred chunks. */
  promises_of_a_chunk: number
}

const ROOT = resolve(import.meta.dir, '../..')
const SOURCE = [process.execPath, join(ROOT, 'src/cli/start.ts')]
/** What prepares the data: the built program where there is one, which starts at once. */
const PREPARER = process.env.GATEWAY_TEST_BINARY
  ? [resolve(ROOT, process.env.GATEWAY_TEST_BINARY)]
  : SOURCE
const PROBE = join(import.meta.dir, 'heap-probe.ts')

/** How often a call is made before it is measured, and how often in each of the blocks. */
interface Count {
  warmUp: number
  calls: number
  blocks: number
}
const CALLS: Count = { warmUp: 100, calls: 100, blocks: 2 }
const LONG_CALLS: Count = { warmUp: 50, calls: 60, blocks: 2 }
const LONG_STREAMS: Count = { warmUp: 10, calls: 12, blocks: 2 }
/** What the longer of two streams has more. */
const MORE_CHUNKS = 100

/** Measures what a plain call makes, and no other. */
export async function measurePlainHeap(): Promise<Pick<HeapFigures, 'bytes_of_a_call'>> {
  return withProvider(async (provider, directory) => {
    const home = await createHome(provider, directory)
    const call = await withServer(provider, home, subject => measure(subject, CALLS, {}))
    return { bytes_of_a_call: Math.round(call.bytes) }
  })
}

/**
 * Measures what calls make, by servers from the source whose collector is off: what they make is
 * counted, and not what is left. Calls come one after the other, over loopback. The engine
 * interprets: what a compiler leaves out depends on when it has time. Timers stand still, as does
 * what they begin: sending to destinations is measured by `bench:destination-cost`.
 */
export async function measureHeap(): Promise<HeapFigures> {
  return withProvider(async (provider, directory) => {
    const home = await createHome(provider, join(directory, 'plain'))
    const plain = await withServer(provider, home, measurePlainCalls)
    const full = await createHome(provider, join(directory, 'full'))
    await enableEverything(full, provider)
    const everything = await withServer(provider, full, subject => measure(subject, CALLS, {}))
    const { call, long, streamed, longStreamed } = plain
    // Whole promises alone are of calls: timers, and chunks that arrive apart, add a share of one.
    return {
      bytes_of_a_call: Math.round(call.bytes),
      bytes_of_a_call_with_everything: Math.round(everything.bytes),
      bytes_of_a_call_of_101_messages: Math.round(long.bytes),
      bytes_of_a_chunk: Math.round((longStreamed.bytes - streamed.bytes) / MORE_CHUNKS),
      promises_of_a_call: Math.floor(call.promises),
      promises_of_a_call_with_everything: Math.floor(everything.promises),
      promises_of_a_streamed_call: Math.floor(streamed.promises),
      promises_of_a_chunk:
        Math.round(((longStreamed.promises - streamed.promises) * 10) / MORE_CHUNKS) / 10,
    }
  })
}

/** Measures the calls of a server that nobody watches: one after the other, since a start takes longest. */
async function measurePlainCalls(subject: Subject) {
  const stream = { stream: true, chunks: 3 }
  const longStream = { stream: true, chunks: stream.chunks + MORE_CHUNKS }
  return {
    call: await measure(subject, CALLS, {}),
    long: await measure(subject, LONG_CALLS, { turns: 101 }),
    streamed: await measure(subject, LONG_CALLS, stream),
    longStreamed: await measure(subject, LONG_STREAMS, longStream),
  }
}

async function withProvider<T>(
  run: (provider: TraceProvider, directory: string) => Promise<T>,
): Promise<T> {
  const provider = startProvider()
  const directory = mkdtempSync(join(tmpdir(), 'gateway-heap-'))
  try {
    return await run(provider, directory)
  } finally {
    await provider.stop()
    rmSync(directory, { recursive: true, force: true })
  }
}

const createHome = (provider: TraceProvider, directory: string): Promise<Home> => {
  const security = { allow_private_urls: [new URL(provider.url).host] }
  const config = { ...createTraceConfig(provider.url), security }
  return initGateway(JSON.stringify(config), directory, PREPARER)
}

/** A server that counts what it makes, with whoever asks it and whom it asks. */
interface Subject {
  provider: TraceProvider
  home: Home
  server: Awaited<ReturnType<typeof startProbedServer>>
}

async function withServer<T>(
  provider: TraceProvider,
  home: Home,
  run: (subject: Subject) => Promise<T>,
): Promise<T> {
  const server = await startProbedServer(home)
  try {
    // From its first count on, a server's timers stand still.
    await server.readHeap()
    return await run({ provider, home, server })
  } finally {
    await server.stop()
  }
}

/** Returns what one such call makes: of several blocks the least, since what is made once adds to some. */
async function measure(
  { provider, home, server }: Subject,
  count: Count,
  options: TraceOptions,
): Promise<HeapGrowth> {
  const call = createTracedCall(options)
  provider.chunks = call.chunks
  const make = async (calls: number) => {
    for (let i = 0; i < calls; i++) await sendCall({ ...server, key: home.key, provider }, call)
  }
  await make(count.warmUp)
  const marks = [await server.readHeap()]
  for (let block = 0; block < count.blocks; block++) {
    await make(count.calls)
    marks.push(await server.readHeap())
  }
  const perCall = (name: keyof HeapGrowth) =>
    Math.min(
      ...marks.slice(1).map((mark, i) => (mark[name] - (marks[i]?.[name] ?? 0)) / count.calls),
    )
  return { bytes: perCall('bytes'), promises: perCall('promises') }
}

async function startProbedServer({ data }: Home) {
  let answer = Promise.withResolvers<HeapGrowth>()
  const [start = '', ...rest] = SOURCE
  const child = Bun.spawn([start, '--preload', PROBE, ...rest, ...listServeArguments(data)], {
    ...{ stdin: 'ignore', stdout: 'pipe', stderr: 'ignore' },
    env: { ...process.env, BUN_JSC_useGC: '0', BUN_JSC_useJIT: '0' },
    ipc: message => answer.resolve(message),
  })
  return {
    url: await readUrl(child.stdout),
    readHeap(): Promise<HeapGrowth> {
      answer = Promise.withResolvers()
      child.send('tell')
      return answer.promise
    },
    stop(): Promise<number> {
      child.kill('SIGKILL')
      return child.exited
    },
  }
}

const listServeArguments = (data: string): string[] => [
  ...['serve', '--port', '0', '--log', 'json'],
  ...['--data', data, '--config', join(data, 'gateway.yaml')],
]

/** Waits for the line that a server prints when it listens, and returns its URL. */
export async function readUrl(stdout: ReadableStream<Uint8Array<ArrayBuffer>>): Promise<string> {
  let text = ''
  // Not a loop over the stream: that would end it, and the server with its next line.
  const reader = stdout.pipeThrough(new TextDecoderStream()).getReader()
  for (;;) {
    const { value, done } = await reader.read()
    if (done) throw new Error(`The server ended before it listened: ${text.slice(-500)}`)
    text += value
    const [, url] = /"event":"listening".*"url":"([^"]+)"/.exec(text) ?? []
    if (url) return url
  }
}
