import type { Frame, Framing, Reader } from '../../src/core/protocols/protocol.ts'
import { protocols } from '../../src/core/protocols/registry.ts'
import { AwsEventStreamScanner } from '../../src/core/upstream/aws-event-stream.ts'
import type { Scanner } from '../../src/core/upstream/part-stream.ts'
import { SseScanner } from '../../src/core/upstream/sse.ts'
import { endpointOf, providerOf, textCall } from '../../test/support/call.ts'
import { bytesOf } from './framing.ts'
import { input, type Speech, type Voice, words } from './speech.ts'
import { geminiPartialArgs } from './voices/gemini.ts'
import { voices } from './voices.ts'

/**
 * The cost of one piece in nanoseconds, from the shortest stream to the longest. `growth` is the
 * ratio of the longest to the shortest.
 */
export interface Course {
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
export function measureReaders(progress: (line: string) => void): Course[] {
  const courses: Course[] = []
  for (const [name, work] of everyCourse()) {
    progress(name)
    courses.push(courseOf(name, work))
  }
  return courses
}

/** Prepares work of a given length. Only `run` is measured. */
type Work = (length: number) => { pieces: number; run: () => void }

// All lengths take turns, so that disturbances affect them alike: they only ever make a run longer.
// The first turn is left out, since the code is compiled in it.
function courseOf(name: string, work: Work): Course {
  const prepared = LENGTHS.map(length => ({ ...work(length), costs: [] as number[] }))
  for (let i = 0; i <= TRIES; i++) for (const { run, costs } of prepared) costs.push(timeOf(run))
  const nanoseconds = prepared.map(({ pieces, costs }) => Math.min(...costs.slice(1)) / pieces)
  return {
    name,
    nanoseconds,
    growth: (nanoseconds.at(-1) ?? Number.NaN) / (nanoseconds[0] ?? Number.NaN),
  }
}

function timeOf(run: () => void): number {
  Bun.gc(true)
  const began = Bun.nanoseconds()
  run()
  return Bun.nanoseconds() - began
}

function* everyCourse(): Generator<[string, Work]> {
  for (const [name, { voice }] of Object.entries(voices)) {
    if (!(name in protocols.text)) continue
    yield [`${name}, text`, reading(name, voice, texts)]
    yield [
      `${name}, arguments`,
      reading(
        name,
        name === 'gemini' ? geminiPartialArgs : voice,
        inputs(SMALL_ONLY.has(name) ? SMALL_INPUT_SIZE : INPUT_SIZE),
      ),
    ]
  }
  yield ['openai-chat, think tags', reading('openai-chat', taggedVoice, texts, true)]
  for (const framing of Object.keys(SCANNERS) as Framing[]) {
    yield [`${framing}, byte by byte`, scanning(framing, 2_500, 1)]
    yield [`${framing}, in 64 KiB reads`, scanning(framing, TEXTS, READ)]
    yield [`${framing}, one event in 1 KiB reads`, gathering(framing)]
  }
}

const texts = (length: number): Speech => ({
  thoughts: [],
  texts: words(length * TEXTS),
  inputs: [],
})
const inputs =
  (size: number) =>
  (length: number): Speech => ({ thoughts: [], texts: [], inputs: input(length * INPUTS, size) })

const taggedVoice: Voice = ({ texts: pieces, ...rest }) =>
  voices['openai-chat']?.voice({ ...rest, texts: ['<think>', ...pieces, '</think>', 'Yes.'] }) ?? []

function reading(
  name: string,
  voice: Voice,
  speech: (length: number) => Speech,
  think_tags = false,
): Work {
  return length => {
    const said = speech(length)
    const frames = voice(said).flat()
    return {
      pieces: said.texts.length + said.inputs.length,
      run: () => readAll(readerOf(name, think_tags), frames),
    }
  }
}

function readerOf(name: string, think_tags: boolean): Reader<unknown> {
  const protocol = protocols.text[name]
  if (!protocol) throw new Error(`There is no protocol ${name}`)
  const { quirks, ...provider } = providerOf()
  return protocol.reader(
    textCall({ stream: true }),
    endpointOf({ provider: { ...provider, quirks: { ...quirks, think_tags } } }),
  )
}

function readAll(reader: Reader<unknown>, frames: Frame[]): void {
  let parts = 0
  for (const frame of frames) parts += reader.read(frame).length
  parts += reader.end?.().length ?? 0
  if (!reader.complete || parts === 0)
    throw new Error('A reader did not read its stream to the end')
}

const SCANNERS: Record<Framing, () => Scanner> = {
  sse: () => new SseScanner(),
  'aws-event-stream': () => new AwsEventStreamScanner(),
}

const VOICES: Record<Framing, string> = {
  sse: 'anthropic-messages',
  'aws-event-stream': 'bedrock-converse',
}

function scanning(framing: Framing, events: number, size: number): Work {
  return length => {
    const frames =
      voices[VOICES[framing]]
        ?.voice({ thoughts: [], texts: words(length * events), inputs: [] })
        .flat() ?? []
    const bytes = bytesOf(frames, framing)
    return { pieces: length * events, run: () => scanAll(framing, bytes, size, frames.length) }
  }
}

// Fewer and larger events with the same total of bytes: a large one must not cost more than the
// small ones that it replaces.
function gathering(framing: Framing): Work {
  return length => {
    const data = JSON.stringify('x'.repeat(length * EVENT_KIB * 1024))
    const events = LONGEST / length
    const bytes = bytesOf(Array(events).fill({ event: 'contentBlockDelta', data }), framing)
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
