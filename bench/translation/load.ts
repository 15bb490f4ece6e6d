import type { Socket } from 'bun'
import { renderPost, type Target } from '../../src/cli/bench/wire.ts'
import type { Dialect, StreamedOutput } from './dialects.ts'
import { OUTPUT } from './model-output.ts'

/** The number of streams, the time between their starts, and when unfinished ones are given up. */
export interface Load {
  streams: number
  gapMs: number
  seconds: number
}

/** The bytes that one stream delivered, and the number of reads. */
export interface Delivery {
  bytes: Buffer
  reads: number
}

/**
 * Opens the streams of one model and keeps their bytes unread: the load shares its core with the
 * mock. `checkAnswers` reads them afterwards.
 */
export function readStreams(
  target: Target,
  dialect: Dialect,
  model: string,
  load: Load,
): Promise<Delivery[]> {
  const request = renderPost(target, dialect.path, dialect.body(model))
  const openDelayed = async (_: unknown, i: number) => {
    await Bun.sleep(i * load.gapMs)
    return readStream(new URL(target.url), request, load.seconds)
  }
  return Promise.all(Array.from({ length: load.streams }, openDelayed))
}

/** Throws unless every answer has the whole output of the mock, and ends. */
export function checkAnswers(answers: Delivery[], dialect: Dialect): void {
  const expected: StreamedOutput = {
    thought: OUTPUT.thoughts.join(''),
    text: OUTPUT.texts.join(''),
    input: OUTPUT.inputs.join(''),
    ended: true,
  }
  for (const { bytes } of answers) {
    const output = readAnswer(bytes, dialect)
    if (!Bun.deepEquals(output, expected))
      throw new Error(
        `A stream did not say what the provider said: ${describeAnswer(bytes, output)}`,
      )
  }
}

async function readStream(
  { hostname, port }: URL,
  request: Buffer,
  seconds: number,
): Promise<Delivery> {
  const { promise, resolve } = Promise.withResolvers<void>()
  const reads: Buffer[] = []
  let last = Buffer.alloc(0)
  const receive = (socket: Socket, bytes: Buffer) => {
    reads.push(Buffer.from(bytes))
    last =
      bytes.length < END.length
        ? Buffer.concat([last, bytes])
        : Buffer.from(bytes.subarray(-END.length))
    if (last.subarray(-END.length).equals(END)) socket.end()
  }
  const open = (socket: Socket) => void socket.write(request)
  const close = () => resolve()
  const socket = await Bun.connect({
    hostname,
    port: Number(port),
    socket: { open, data: receive, close, error: close },
  })
  const impatience = setTimeout(() => socket.terminate(), seconds * 1_000)
  await promise
  clearTimeout(impatience)
  return { bytes: Buffer.concat(reads), reads: reads.length }
}

// The last chunk of a chunked answer (RFC 9112, 7.1).
const END = Buffer.from('\r\n0\r\n\r\n')

function readAnswer(answer: Buffer, dialect: Dialect): StreamedOutput {
  const output: StreamedOutput = { thought: '', text: '', input: '', ended: false }
  for (const [, data = ''] of joinChunks(answer).matchAll(/^data: (.*)$/gm))
    dialect.readEvent(data, output)
  return output
}

/** Joins the body from its chunks. */
function joinChunks(answer: Buffer): string {
  const pieces: Buffer[] = []
  let at = answer.indexOf('\r\n\r\n') + 4
  while (at < answer.length) {
    const lineEnd = answer.indexOf('\r\n', at)
    const size = Number.parseInt(answer.toString('latin1', at, lineEnd), 16)
    if (!(size > 0)) break
    pieces.push(answer.subarray(lineEnd + 2, lineEnd + 2 + size))
    at = lineEnd + 2 + size + 2
  }
  return Buffer.concat(pieces).toString()
}

const describeAnswer = (answer: Buffer, { thought, text, input, ended }: StreamedOutput) =>
  `${answer.toString('latin1', 0, 16).trim()}, thought ${thought.length}, ` +
  `text ${text.length}, input ${input.length}, ${ended ? '' : 'not '}ended`
