import { awsEvent } from './aws-event-stream.ts'
import { listRecordings, type Mode, type Recording } from './recordings.ts'

/** An answer as it travels. */
export interface Wire {
  status: number
  type: string
  bytes: Uint8Array
}

/** Renders a recording as its provider would send it. An error body gets an error status. */
export function renderWire(recording: Recording): Wire {
  if (recording.mode === 'whole') return renderWhole(recording)
  if (recording.protocol === 'bedrock-converse')
    return { status: 200, type: EVENT_STREAM, bytes: renderEventStream(recording.lines) }
  return {
    status: 200,
    type: 'text/event-stream; charset=utf-8',
    bytes: Buffer.from(renderEvents(recording)),
  }
}

const EVENT_STREAM = 'application/vnd.amazon.eventstream'

/** The protocols whose events have names, and what follows the last event of a stream. */
const PROTOCOLS_WITH_EVENT_NAMES = new Set(['anthropic-messages', 'openai-responses'])
const STREAM_ENDS: Record<string, string> = { 'openai-chat': 'data: [DONE]\n\n' }

function renderEvents({ protocol, lines }: Recording): string {
  const name = (line: string) =>
    PROTOCOLS_WITH_EVENT_NAMES.has(protocol) ? `event: ${JSON.parse(line).type}\n` : ''
  return (
    lines.map(line => `${name(line)}data: ${line}\n\n`).join('') + (STREAM_ENDS[protocol] ?? '')
  )
}

function renderWhole({ lines }: Recording): Wire {
  const text = lines.join('')
  return {
    status: isError(JSON.parse(text)) ? 400 : 200,
    type: 'application/json',
    bytes: Buffer.from(text),
  }
}

// A successful answer of the Responses API has an `error` of null.
const isError = (body: { error?: unknown }): boolean =>
  body.error !== undefined && body.error !== null

const renderEventStream = (lines: string[]): Uint8Array =>
  Buffer.concat(
    lines.flatMap(line =>
      Object.entries(JSON.parse(line)).map(([event, payload]) =>
        awsEvent(event, JSON.stringify(payload)),
      ),
    ),
  )

/** A server on loopback for all providers: it answers with the recording that the model names. */
export class Replay {
  readonly #server: Bun.Server<undefined>
  readonly #recordings = new Map<string, Recording[]>()
  readonly #pieces: number

  constructor(pieces: number) {
    this.#pieces = pieces
    this.#server = Bun.serve({
      hostname: '127.0.0.1',
      port: 0,
      fetch: request => this.#answer(request),
    })
  }

  /** The base URL of the provider that speaks this protocol. */
  base(protocol: string): string {
    return `http://127.0.0.1:${this.#server.port}/${protocol}`
  }

  /** Stops listening and drops every connection. */
  async close(): Promise<void> {
    await this.#server.stop(true)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  async #answer(request: Request): Promise<Response> {
    const [, protocol = '', ...path] = new URL(request.url).pathname.split('/')
    const { model, mode } = readTarget(path.join('/'), await request.json())
    const recording = this.#recordingsOf(protocol).find(
      one => one.name === model && one.mode === mode,
    )
    if (!recording)
      return Response.json(
        { error: { message: `There is no recording ${model}, ${mode}` } },
        { status: 404 },
      )
    const { status, type, bytes } = renderWire(recording)
    return new Response(streamPieces(bytes, this.#pieces), {
      status,
      headers: { 'content-type': type },
    })
  }

  #recordingsOf(protocol: string): Recording[] {
    const known = this.#recordings.get(protocol) ?? listRecordings(protocol)
    this.#recordings.set(protocol, known)
    return known
  }
}

/**
 * Starts the server. It writes `pieces` bytes at a time, by default all at once. The caller closes
 * it.
 */
export const startReplay = ({
  pieces = Number.POSITIVE_INFINITY,
}: {
  pieces?: number
} = {}): Replay => new Replay(pieces)

/** The position of the model in the path, and the suffix of paths for streamed answers. */
const PATHS = [
  { model: /(?:^|\/)models\/([^/:]+):/, streamed: /:stream(GenerateContent|RawPredict)$/ },
  { model: /(?:^|\/)model\/([^/]+)\//, streamed: /\/converse-stream$/ },
]

/** Reads the model and the mode from a request's path or body. */
export function readTarget(
  path: string,
  body: { model?: unknown; stream?: unknown },
): { model: string; mode: Mode } {
  for (const { model, streamed } of PATHS) {
    const found = model.exec(path)?.[1]
    if (found)
      return { model: decodeURIComponent(found), mode: streamed.test(path) ? 'streamed' : 'whole' }
  }
  return { model: String(body.model), mode: body.stream === true ? 'streamed' : 'whole' }
}

function streamPieces(bytes: Uint8Array, size: number): ReadableStream<Uint8Array> {
  let from = 0
  return new ReadableStream({
    async pull(controller) {
      // A turn of the event loop between two pieces keeps the kernel from merging them.
      await new Promise(setImmediate)
      if (from >= bytes.length) return controller.close()
      controller.enqueue(bytes.slice(from, from + size))
      from += size
    },
  })
}
