import type { Gateway } from '../../../app/gateway.ts'
import { requireValid } from '../../../base/body.ts'
import { Cancellation } from '../../../base/cancellation.ts'
import { GatewayError } from '../../../base/errors.ts'
import { infer } from '../../../engine/infer.ts'
import type { DialectName } from '../../../language/dialect.ts'
import type { IncomingResponse } from '../../../network/egress.ts'
import type { Actor } from '../../../resources/actor.ts'
import type { DialectBody } from '../../../translation/dialects/dialect.ts'
import { RawBody } from '../../../translation/dialects/raw-body.ts'
import { findDialect } from '../../../translation/dialects/registry.ts'
import { getDataDirectory } from '../../data-directory.ts'
import type { CommonOptions } from '../../options.ts'
import { openRemote } from '../../remote.ts'
import { readServerUrl } from '../../status-socket.ts'
import { withGateway } from '../../with-gateway.ts'

/** The dialects that the command speaks. */
type Spoken = Extract<DialectName, 'chat' | 'images' | 'speech'>

/** One who answers calls: the server of a data directory, or this process. */
export interface Asker {
  /** Returns the data of the events of a streamed answer. Throws what the call is refused with. */
  askEvents(dialect: Spoken, body: object): AsyncGenerator<string, void>
  /** Returns the bytes of a whole answer. Throws what the call is refused with. */
  askWhole(dialect: Spoken, body: object): Promise<Uint8Array>
}

/**
 * Runs a task with who answers calls of this data directory: the server that runs on it, else this
 * process, which keeps servers away meanwhile. Where there is no data yet and none is named, the
 * default directory is made. Ctrl-C ends the call, and what it cost is recorded.
 */
export async function openAsker(
  options: CommonOptions,
  task: (asker: Asker) => Promise<void>,
): Promise<void> {
  const url = await readServerUrl(getDataDirectory(options))
  const controller = new AbortController()
  const stop = () => controller.abort()
  process.once('SIGINT', stop)
  try {
    await withGateway(
      options,
      (gateway, actor) =>
        url !== undefined
          ? withTemporaryKey(gateway, actor, key =>
              task(new ServerAsker(url, key, controller.signal)),
            )
          : withLock(gateway, () => task(new OwnAsker(gateway, actor, controller.signal))),
      { secrets: url === undefined, makes: true },
    )
  } finally {
    process.off('SIGINT', stop)
  }
}

async function withLock(gateway: Gateway, task: () => Promise<void>): Promise<void> {
  const unlock = await gateway.lock()
  try {
    await task()
  } finally {
    await unlock()
  }
}

/** A key of a process that is killed lasts no longer than this, in milliseconds. */
const LONGEST_CALL = 3_600_000

async function withTemporaryKey(
  gateway: Gateway,
  actor: Actor,
  task: (key: string) => Promise<void>,
): Promise<void> {
  const { createKey, deleteKey } = await import('../../../resources/keys.ts')
  const expires_at = new Date(gateway.clock.now().getTime() + LONGEST_CALL).toISOString()
  const created = await createKey(gateway, actor, { name: 'gateway try', expires_at })
  try {
    await task(created.key)
  } finally {
    await deleteKey(gateway, actor, created.data.hash)
  }
}

/** Answers in this process, as the operator. */
class OwnAsker implements Asker {
  readonly #gateway: Gateway
  readonly #actor: Actor
  readonly #signal: AbortSignal

  constructor(gateway: Gateway, actor: Actor, signal: AbortSignal) {
    this.#gateway = gateway
    this.#actor = actor
    this.#signal = signal
  }

  async *askEvents(name: Spoken, given: object): AsyncGenerator<string, void> {
    const { dialect, answer, call, body } = await this.#ask(name, given)
    const events = dialect.streaming?.streamEvents(answer, call, body)
    if (!events) throw new GatewayError('server', `${name} does not stream`)
    yield* readData(toBytes(events))
  }

  async askWhole(name: Spoken, given: object): Promise<Uint8Array> {
    const { dialect, answer, call, body } = await this.#ask(name, given)
    const collected = await dialect.collectResponse(answer, call, body)
    if (!(collected instanceof RawBody)) return Buffer.from(JSON.stringify(collected))
    const { content } = collected
    return typeof content === 'string' ? Buffer.from(content) : gather(content)
  }

  async #ask(name: Spoken, given: object) {
    const { ids, clock } = this.#gateway
    const dialect = findDialect(name)
    const body = requireValid(dialect.body, given) as DialectBody
    const call = dialect.toCall(this.#gateway, this.#actor, body, {
      origin: {
        request_id: ids.uuid(),
        http_referer: null,
        title: 'gateway try',
        user_agent: null,
        traceContext: null,
        region: 'global',
      },
      id: ids.generation(clock.now()),
      session_id: null,
      betas: [],
    })
    const answer = await infer(this.#gateway, this.#actor, dialect.kind, call, this.#signal)
    return { dialect, answer, call, body }
  }
}

async function gather(pieces: AsyncIterator<Uint8Array>): Promise<Uint8Array> {
  const read: Uint8Array[] = []
  for (let next = await pieces.next(); !next.done; next = await pieces.next()) read.push(next.value)
  return Buffer.concat(read)
}

async function* toBytes(events: AsyncIterator<string>): AsyncGenerator<Uint8Array, void> {
  try {
    for (let next = await events.next(); !next.done; next = await events.next())
      yield Buffer.from(next.value)
  } finally {
    await events.return?.()
  }
}

async function* readData(bytes: AsyncIterable<Uint8Array>): AsyncGenerator<string, void> {
  const { SseScanner } = await import('../../../network/sse.ts')
  const scanner = new SseScanner()
  for await (const piece of bytes) for (const { data } of scanner.feed(piece)) yield data
}

const PATHS: Record<Spoken, string> = {
  chat: '/chat/completions',
  images: '/images',
  speech: '/audio/speech',
}

/** Has the server of the data directory answer. */
class ServerAsker implements Asker {
  readonly #url: string
  readonly #key: string
  readonly #cancellation = new Cancellation()

  constructor(url: string, key: string, signal: AbortSignal) {
    this.#url = url
    this.#key = key
    signal.addEventListener('abort', () =>
      this.#cancellation.cancel(new GatewayError('unmapped', 'The call was ended')),
    )
  }

  async *askEvents(name: Spoken, body: object): AsyncGenerator<string, void> {
    yield* readData(readPieces(await this.#post(name, body)))
  }

  async askWhole(name: Spoken, body: object): Promise<Uint8Array> {
    return gather(readPieces(await this.#post(name, body)))
  }

  async #post(name: Spoken, body: object) {
    const remote = await openRemote(this.#url, this.#key)
    return remote.post(PATHS[name], body, this.#cancellation)
  }
}

async function* readPieces(incoming: IncomingResponse): AsyncGenerator<Uint8Array, void> {
  for (let bytes = await incoming.read(); bytes; bytes = await incoming.read())
    // What is read is only good until the next read.
    yield Buffer.from(bytes)
}
