import type { FrameScanner } from '../../src/network/part-stream.ts'
import { AwsEventStreamScanner } from '../../src/network/part-stream.ts'
import { SseScanner } from '../../src/network/sse.ts'
import type { Frame, Framing, Reader } from '../../src/translation/protocols/protocol.ts'
import { protocols } from '../../src/translation/protocols/registry.ts'
import { buildEndpoint, buildProvider, buildTextCall } from '../../test/support/call.ts'
import { encodeFrames } from './framing.ts'
import { renderGeminiPartialArgs } from './mock-protocols/gemini.ts'
import { mockProtocols } from './mock-protocols.ts'
import { createInput, createWords, type ModelOutput, type StreamRenderer } from './model-output.ts'

/**
 * The cost of one piece in nanoseconds, from the shortest stream to the longest. `growth` is the
 * ratio of the longest to the shortest.
 */
export interface CostCurve {
  name: string
  nanoseconds: number[]
  growth: number
}

const LONGEST = 8
const LENGTHS = [1, 2, 4, LONGEST]
const TEXTS = 10_000
const INPUTS = 1_024
/**
 * The size of one argument delta of the giant call. Smaller where the whole call must fit into 4
 * MiB, in one reader or in one last event.
 */
const INPUT_SIZE = 1_024
const SMALL_INPUT_SIZE = 480
const SMALL_ONLY = new Set(['gemini', 'openai-responses'])
const READ = 64 * 1024
/** A scanner accepts events up to 4 MiB. The longest one here is smaller. */
const EVENT_KIB = 480
const TRIES = 7

/**
 * Measures in this process the cost of readers and scanners per piece, as streams get longer. Code
 * that rereads what it has read shows as growth.
 */
export function measureReaders(progress: (line: string) => void): CostCurve[] {
  const curves: CostCurve[] = []
  for (const [name, work] of listWork()) {
    progress(name)
    curves.push(measureCurve(name, work))
  }
  return curves
}

/** Prepares work of a given length. Only `run` is measured. */
type Work = (length: number) => { pieces: number; run: () => void }

// All lengths take turns, so that disturbances affect them alike: they only ever make a run longer.
// The first turn is left out, since the code is compiled in it.
function measureCurve(name: string, work: Work): CostCurve {
  const prepared = LENGTHS.map(length => ({ ...work(length), costs: [] as number[] }))
  for (let i = 0; i <= TRIES; i++)
    for (const { run, costs } of prepared) costs.push(measureTime(run))
  const nanoseconds = prepared.map(({ pieces, costs }) => Math.min(...costs.slice(1)) / pieces)
  return {
    name,
    nanoseconds,
    growth: (nanoseconds.at(-1) ?? Number.NaN) / (nanoseconds[0] ?? Number.NaN),
  }
}

function measureTime(run: () => void): number {
  Bun.gc(true)
  const began = Bun.nanoseconds()
  run()
  return Bun.nanoseconds() - began
}

function* listWork(): Generator<[string, Work]> {
  for (const [name, { render }] of Object.entries(mockProtocols)) {
    if (!(name in protocols.text)) continue
    yield [`${name}, text`, createReaderWork(name, render, createTexts)]
    yield [
      `${name}, arguments`,
      createReaderWork(
        name,
        name === 'gemini' ? renderGeminiPartialArgs : render,
        createInputs(SMALL_ONLY.has(name) ? SMALL_INPUT_SIZE : INPUT_SIZE),
      ),
    ]
  }
  yield [
    'openai-chat, think tags',
    createReaderWork('openai-chat', renderTagged, createTexts, true),
  ]
  for (const framing of Object.keys(SCANNERS) as Framing[]) {
    yield [`${framing}, byte by byte`, createScannerWork(framing, 2_500, 1)]
    yield [`${framing}, in 64 KiB reads`, createScannerWork(framing, TEXTS, READ)]
    yield [`${framing}, one event in 1 KiB reads`, createLargeEventWork(framing)]
  }
}

const createTexts = (length: number): ModelOutput => ({
  thoughts: [],
  texts: createWords(length * TEXTS),
  inputs: [],
})
const createInputs =
  (size: number) =>
  (length: number): ModelOutput => ({
    thoughts: [],
    texts: [],
    inputs: createInput(length * INPUTS, size),
  })

const renderTagged: StreamRenderer = ({ texts: pieces, ...rest }) =>
  mockProtocols['openai-chat']?.render({
    ...rest,
    texts: ['<think>', ...pieces, '</think>', 'Yes.'],
  }) ?? []

function createReaderWork(
  name: string,
  render: StreamRenderer,
  createOutput: (length: number) => ModelOutput,
  think_tags = false,
): Work {
  return length => {
    const output = createOutput(length)
    const frames = render(output).flat()
    return {
      pieces: output.texts.length + output.inputs.length,
      run: () => readAll(createReader(name, think_tags), frames),
    }
  }
}

function createReader(name: string, think_tags: boolean): Reader<unknown> {
  const protocol = protocols.text[name]
  if (!protocol) throw new Error(`There is no protocol ${name}`)
  const { quirks, ...provider } = buildProvider()
  return protocol.createReader(
    buildTextCall({ stream: true }),
    buildEndpoint({ provider: { ...provider, quirks: { ...quirks, think_tags } } }),
  )
}

function readAll(reader: Reader<unknown>, frames: Frame[]): void {
  let parts = 0
  for (const frame of frames) parts += reader.read(frame).length
  parts += reader.end?.().length ?? 0
  if (!reader.complete || parts === 0)
    throw new Error('A reader did not read its stream to the end')
}

const SCANNERS: Record<Framing, () => FrameScanner> = {
  sse: () => new SseScanner(),
  'aws-event-stream': () => new AwsEventStreamScanner(),
}

const SCANNER_PROTOCOLS: Record<Framing, string> = {
  sse: 'anthropic-messages',
  'aws-event-stream': 'bedrock-converse',
}

function createScannerWork(framing: Framing, events: number, size: number): Work {
  return length => {
    const frames =
      mockProtocols[SCANNER_PROTOCOLS[framing]]
        ?.render({ thoughts: [], texts: createWords(length * events), inputs: [] })
        .flat() ?? []
    const bytes = encodeFrames(frames, framing)
    return { pieces: length * events, run: () => scanAll(framing, bytes, size, frames.length) }
  }
}

// Fewer and larger events with the same total of bytes: a large one must not cost more than the
// small ones that it replaces.
function createLargeEventWork(framing: Framing): Work {
  return length => {
    const data = JSON.stringify('x'.repeat(length * EVENT_KIB * 1024))
    const events = LONGEST / length
    const bytes = encodeFrames(Array(events).fill({ event: 'contentBlockDelta', data }), framing)
    return { pieces: LONGEST * EVENT_KIB, run: () => scanAll(framing, bytes, 1024, events) }
  }
}

function scanAll(framing: Framing, bytes: Uint8Array, size: number, expected: number): void {
  const scanner = SCANNERS[framing]()
  let frames = 0
  for (let at = 0; at < bytes.length; at += size)
    frames += scanner.feed(bytes.subarray(at, at + size)).length
  frames += scanner.end().length
  if (frames !== expected) throw new Error(`A scanner found ${frames} of ${expected} frames`)
}
