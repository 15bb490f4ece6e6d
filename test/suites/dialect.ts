import { beforeAll, describe, expect, test } from 'bun:test'
import type { Gateway } from '../../src/app/gateway.ts'
import { parseBody } from '../../src/base/body.ts'
import { GatewayError } from '../../src/base/errors.ts'
import type { Json } from '../../src/base/json.ts'
import type { Answer } from '../../src/language/answer.ts'
import type { TextCall } from '../../src/language/call.ts'
import type { AnswerPart, Kind } from '../../src/language/work.ts'
import { SseScanner } from '../../src/network/sse.ts'
import { getOperator } from '../../src/resources/actor.ts'
import { createErrorResponse } from '../../src/server/errors.ts'
import { buildPresetDraft } from '../../src/translation/dialects/chat/request.ts'
import type {
  BegunStream,
  CallContext,
  Dialect,
  DialectBody,
  Streaming,
} from '../../src/translation/dialects/dialect.ts'
import { RawBody } from '../../src/translation/dialects/raw-body.ts'
import type { Frame } from '../../src/translation/protocols/protocol.ts'
import { createAnswer, failed, finish, receipt, start, text } from '../support/answer.ts'
import { getApp } from '../support/app.ts'
import { buildTextCall } from '../support/call.ts'
import { freezeDeep } from '../support/freeze.ts'
import { createTestKeys, testGateway } from '../support/gateway.ts'

/** What the suite needs to know about a dialect: its requests, and how its clients read answers. */
export interface Sample {
  /** A valid body that asks `acme/small` for something small. */
  body: Json
  /** Fields that make the body invalid, and the field that the error names. */
  misfits: [more: Json, field: string][]
  readWhole(answer: Json): Reading
  /** Whether answers are no JSON: `readWhole` gets them as a text, under `raw`. */
  isRaw?: true
  /** Whether fields that it does not know are refused, and not forwarded. */
  refusesUnknown?: true
  /** Whether they are left out, and named. */
  namesUnknown?: true
  /** Whether answers say nothing of what was counted. */
  isUncounted?: true
  /** Reads the events of a streamed answer; absent if every answer is whole. */
  readEvents?(frames: Frame[]): Reading
  /** Splits a stream that is not of server-sent events. Throws for half a frame at its end. */
  splitFrames?(wire: string, hasEnded: boolean): Frame[]
  readRefusal(refusal: Json): RefusalReading
}

/** What a client reads from an answer. */
export interface Reading {
  text: string
  /** The finish reason in the dialect's own terms; null if there is none or none has come. */
  finish: string | null
  tokens: { input: number; output: number } | null
  /** The message of the error that the client got. */
  failure: string | null
  /** Whether the client takes the answer for a finished one. */
  isFinished: boolean
}

export interface RefusalReading {
  type: string | null
  message: string
  /** The id to give to support: the request's, or the generation's. */
  id: string | null
}

/** A small answer of each kind in batches, without its receipt, and its text. */
const SAID: Record<Kind, { batches: AnswerPart<Kind>[][]; text: string }> = {
  text: { batches: [[start, text('Hel')], [text('lo')], [finish]], text: 'Hello' },
  embedding: {
    batches: [[start], [{ type: 'embedding', index: 0, vector: [0.5, -0.25] }]],
    text: '[[0.5,-0.25]]',
  },
  rerank: {
    batches: [
      [start],
      [
        { type: 'ranking', index: 1, relevance_score: 0.25 },
        { type: 'ranking', index: 0, relevance_score: 0.5 },
      ],
    ],
    text: '[[0,0.5],[1,0.25]]',
  },
  image: {
    batches: [[start], [{ type: 'picture', data: 'aGk=', media_type: 'image/png' }]],
    text: 'aGk=',
  },
  speech: {
    batches: [
      [start],
      [{ type: 'sound', bytes: Buffer.from('Hel') }],
      [{ type: 'sound', bytes: Buffer.from('lo') }, { type: 'sound-end' }],
    ],
    text: 'Hello',
  },
  transcription: {
    batches: [[start], [{ type: 'transcript', choice: 0, text: 'Hello' }]],
    text: 'Hello',
  },
  video: { batches: [[start], [{ type: 'job', upstream_id: 'video-1' }]], text: 'pending' },
}

const CONTEXT: CallContext = {
  id: 'gen-1',
  origin: buildTextCall().origin,
  session_id: 'from-header',
  betas: [],
}

const FAILURE = new GatewayError('rate_limit_exceeded', 'Slow down', { metadata: { limit: 5 } })
const ROUTING = { gateway_metadata: { strategy: 'direct' } }
/** The same as part of an event. */
const SHOWN = JSON.stringify(ROUTING).slice(1, -1)
const failure: AnswerPart<Kind> = { type: 'error', error: FAILURE }
const routed = { ...receipt, siblingFields: ROUTING } as AnswerPart<Kind>

/** Tests what every dialect of the registry promises. */
export function testDialect(dialect: Dialect, sample: Sample): void {
  const { kind, name, streaming } = dialect
  const { batches, text: said } = SAID[kind]
  const body = sample.body as DialectBody
  const answers = [...batches, [receipt]]
  // The path of a door names the model.
  const at = dialect.path.includes('/:model/')
    ? dialect.path.replace(':model', 'acme%2Fsmall')
    : `/api/v1${dialect.path}`
  let gateway: Gateway

  beforeAll(async () => {
    gateway = await testGateway()
  })

  const understand = (more: Json = {}, context = CONTEXT) =>
    dialect.toCall(gateway, getOperator(gateway), freezeDeep({ ...body, ...more }), context)

  const read = async (...given: AnswerPart<Kind>[][]): Promise<Reading> => {
    const whole = await dialect.collectResponse(createAnswer<Kind>(...given), understand(), body)
    if (whole instanceof RawBody) return sample.readWhole({ raw: await readRaw(whole) })
    return sample.readWhole(JSON.parse(JSON.stringify(whole)))
  }

  describe(`${name}: a body`, () => {
    const parsed = (more: Json) => {
      const bytes = Buffer.from(JSON.stringify({ ...body, ...more }))
      return parseBody(dialect.body, bytes)
    }

    if (sample.refusesUnknown)
      test('with unknown fields is refused, and the error names the first', () => {
        expect(catchError(() => parsed({ hologram: { depth: 3 } }))).toMatchObject({
          status: 400,
          metadata: { field: 'hologram' },
        })
      })
    else
      test('that is valid is accepted, unknown fields included', () => {
        expect(parsed({ hologram: { depth: 3 } })).toMatchObject({ hologram: { depth: 3 } })
      })

    test('may request a dry run', () => {
      const debug = { dry_run: true, key: 'hash' }
      expect(parsed({ debug })).toMatchObject({ debug })
    })

    const misfits: Sample['misfits'] = [
      [{ debug: { dry_run: 'yes' } }, 'debug.dry_run'],
      [{ model: 7 }, 'model'],
      [{ provider: { order: 'openai' } }, 'provider.order'],
      ...sample.misfits,
    ]
    test.each(misfits)('with %j is refused, and the error names the field', (more, field) => {
      expect(catchError(() => parsed(more))).toMatchObject({ status: 400, metadata: { field } })
    })
  })

  describe(`${name}: a call`, () => {
    test('is made from the body without changing it', () => {
      const { id, origin } = CONTEXT
      const models = ['acme/small']
      expect(understand()).toMatchObject({ kind, id, origin, models, stream: false })
    })

    const readStreamed = () => {
      const bytes = Buffer.from(JSON.stringify({ ...body, stream: true }))
      return parseBody(dialect.body, bytes) as Json
    }

    test('streams if the dialect does, and is refused otherwise', () => {
      if (streaming) expect(understand({ stream: true }).stream).toBe(true)
      else expect(() => understand(readStreamed())).toThrow('stream')
      expect(understand({ stream: false }).stream).toBe(false)
    })

    test('has the session id of its headers unless the body has one', () => {
      expect(understand().session_id).toBe('from-header')
      expect(understand({ session_id: 's' }).session_id).toBe('s')
    })

    if (!sample.refusesUnknown)
      test('keeps unknown fields, or their names', () => {
        const { extra, leftOut } = understand({ hologram: { depth: 3 } }) as Partial<TextCall>
        if (sample.namesUnknown) expect(leftOut).toEqual(['hologram'])
        else expect(extra).toEqual({ hologram: { depth: 3 } })
      })

    test('has the request for routing metadata if the caller made it', () => {
      const context = { ...CONTEXT, routingMetadataField: 'gateway_metadata' }
      const request = { field: 'gateway_metadata', requestedModel: 'acme/small' }
      expect(understand({}, context).routingMetadata).toEqual(request)
      expect(understand().routingMetadata).toBeUndefined()
    })

    // Only text calls can use presets.
    if (kind === 'text')
      test('that names an unknown preset is a 404', () => {
        expect(catchError(() => understand({ preset: 'nothing' }))).toMatchObject({ status: 404 })
      })
  })

  describe(`${name}: a whole answer`, () => {
    test('has the content, the finish reason and the usage', async () => {
      const reading = await read(...answers)
      expect(reading).toMatchObject({ text: said, failure: null, isFinished: true })
      expect(reading.tokens?.input).toBe(sample.isRaw || sample.isUncounted ? undefined : 10)
      expect(reading.finish === null).toBe(kind !== 'text')
    })

    test('has routing metadata if the dialect supports it', async () => {
      const whole = await dialect.collectResponse(
        createAnswer<Kind>(...batches, [routed]),
        understand(),
        body,
      )
      const shown = dialect.showsRouting ? ROUTING.gateway_metadata : undefined
      expect((whole as Json).gateway_metadata).toEqual(shown)
    })

    test('that failed before any content throws that error', async () => {
      expect(await read([failure, receipt]).catch(thrown => thrown)).toBe(FAILURE)
    })

    test('that broke off does not look finished', async () => {
      for (let length = 1; length <= batches.length - 1; length++) {
        const reading = await read(...batches.slice(0, length), [failed, receipt]).catch(() => null)
        expect(reading?.isFinished ?? false).toBe(false)
      }
    })
  })

  describe(`${name}: an error`, () => {
    const { errorFormat } = dialect
    const envelope = errorFormat && {
      ...errorFormat,
      renderError: (error: GatewayError) => errorFormat.renderError(error, 'gen-1'),
    }
    const refused = (error: unknown) => createErrorResponse(error, 'req-1', {}, envelope)
    const refusalOf = async (error: unknown) => (await refused(error).json()) as Json

    test('has its type, its message and an id', async () => {
      expect(refused(FAILURE).status).toBe(429)
      const { type, message, id } = sample.readRefusal(await refusalOf(FAILURE))
      expect([type, message]).toEqual(['rate_limit_exceeded', 'Slow down'])
      expect(['req-1', 'gen-1']).toContain(id as string)
    })

    test('reveals nothing about a bug', async () => {
      const refusal = await refusalOf(new Error('secret'))
      expect(sample.readRefusal(refusal).message).toBe('Internal Server Error')
    })

    test('has the sibling fields that the caller requested', async () => {
      expect(await refusalOf(FAILURE.with({ siblingFields: ROUTING }))).toMatchObject(ROUTING)
    })
  })

  describe(`${name}: its route`, () => {
    const ask = async (asked: Json, headers: Record<string, string>) => {
      const init = { method: 'POST', headers, body: JSON.stringify(asked) }
      return getApp(gateway).handle(new Request(`http://localhost${at}`, init))
    }

    test('refuses an unknown key in the dialect’s error format', async () => {
      const response = await ask(body as Json, {})
      expect(response.status).toBe(401)
      expect(sample.readRefusal((await response.json()) as Json).type).toBe('authentication')
    })

    test('accepts a key in the headers that the dialect’s clients send', async () => {
      const { inference } = await createTestKeys(gateway)
      const usual = await ask({}, { authorization: `Bearer ${inference}` })
      const other = await ask({}, { 'x-api-key': inference })
      expect([usual.status, other.status]).toEqual([400, dialect.acceptsApiKeyHeader ? 400 : 401])
    })

    test('refuses an invalid body in the dialect’s error format, with the request id', async () => {
      const { inference } = await createTestKeys(gateway)
      const headers = { authorization: `Bearer ${inference}`, 'x-request-id': 'mine' }
      const response = await ask({ ...(body as Json), model: 7 }, headers)
      const { type, message, id } = sample.readRefusal((await response.json()) as Json)
      expect([response.status, type]).toEqual([400, 'invalid_request'])
      expect(message).toStartWith('model: ')
      expect(['mine', response.headers.get('x-generation-id')]).toContain(id)
    })

    test('explains a call for a management key', async () => {
      const { management } = await createTestKeys(gateway)
      const headers = { authorization: `Bearer ${management}`, 'x-request-id': 'mine' }
      const response = await ask({ ...(body as Json), debug: { dry_run: true } }, headers)
      expect(response.headers.get('x-request-id')).toBe('mine')
      expect(response.headers.get('x-generation-id')).toBeNull()
      const requested = ['acme/small']
      expect(await response.json()).toMatchObject({ requested, error: { code: 400 } })
    })
  })

  const { preset } = dialect
  if (preset)
    describe(`${name}: a preset`, () => {
      const draft = (more: Json = {}) =>
        buildPresetDraft(gateway, getOperator(gateway), preset, freezeDeep({ ...body, ...more }))

      test('is made from a request, and keeps its settings', () => {
        const { config } = draft({ temperature: 0.5, user: 'ada', hologram: {} })
        expect(config).toMatchObject({ model: 'acme/small', temperature: 0.5 })
        for (const left of ['user', 'hologram']) expect(config).not.toContainKey(left)
      })

      test('cannot name a preset itself', () => {
        expect(catchError(() => draft({ preset: 'p' }))).toMatchObject({ status: 400 })
        expect(catchError(() => draft({ model: '@preset/p' }))).toMatchObject({ status: 400 })
      })
    })

  test(`${name}: streams if its clients read streams`, () => {
    expect(streaming === undefined).toBe(sample.readEvents === undefined)
  })

  const { readEvents, splitFrames } = sample
  const streamed = { body, read, understand, answers, splitFrames }
  if (streaming && readEvents) testStreaming(dialect, { ...streamed, streaming, readEvents })
}

async function readRaw({ content }: RawBody): Promise<string> {
  if (typeof content === 'string') return content
  const pieces: Uint8Array[] = []
  for (let step = await content.next(); !step.done; step = await content.next())
    pieces.push(step.value)
  return Buffer.concat(pieces).toString()
}

interface StreamCase {
  streaming: Streaming
  body: DialectBody
  readEvents: NonNullable<Sample['readEvents']>
  splitFrames: Sample['splitFrames']
  read: (...batches: AnswerPart<Kind>[][]) => Promise<Reading>
  understand: (more?: Json) => ReturnType<Dialect['toCall']>
  answers: AnswerPart<Kind>[][]
}

function testStreaming({ name, showsRouting }: Dialect, streamed: StreamCase): void {
  const { streaming, body, readEvents, splitFrames, read, understand, answers } = streamed
  const batches = answers.slice(0, -1)
  const call = () => understand({ stream: true })
  const opened = (answer: Answer<Kind>) => streaming.streamEvents(answer, call(), body)
  const written = (...given: AnswerPart<Kind>[][]) =>
    Array.fromAsync(texts(opened(createAnswer<Kind>(...given))))
  const heading = { id: 'gen-1', created: 1_772_600_767, model: 'acme/small', provider: '' }
  // As a server has it: a stream that may wait, and its answer or failure.
  const begin = (): BegunStream =>
    streaming.begin?.(heading, call(), body) ?? {
      renderKeepAlive: () => streaming.renderKeepAlive?.('gateway') ?? '',
      streamEvents: opened,
      renderFailure: error => streaming.renderFailure(heading, error, call(), body),
    }
  const split = (wire: string, hasEnded = true) => (splitFrames ?? parseFrames)(wire, hasEnded)
  const readTexts = (pieces: string[]) => readEvents(split(pieces.join('')))
  const joinData = (wire: string) =>
    split(wire)
      .map(({ data }) => data)
      .join('')
  const expectComplete = (piece: string) => {
    if (splitFrames) split(piece)
    else expect(piece).toMatch(/^$|\n\n$/)
  }

  describe(`${name}: a streamed answer`, () => {
    test('has the content of a whole one, however it is split into batches', async () => {
      const whole = await read(...answers)
      expect(readTexts(await written(...answers))).toEqual(whole)
      expect(readTexts(await written(answers.flat()))).toEqual(whole)
    })

    test('consists of complete events only', async () => {
      for (const piece of await written(...answers)) expectComplete(piece)
    })

    test('has routing metadata if the dialect supports it', async () => {
      const wire = (await written(...batches, [routed])).join('')
      expect(joinData(wire).includes(SHOWN)).toBe(showsRouting ?? false)
    })

    test('that breaks off has an error and does not look finished', async () => {
      for (let length = 1; length < batches.length; length++) {
        const broken = [...batches.slice(0, length), [failed, receipt]]
        const reading = readTexts(await written(...broken))
        expect([reading.failure, reading.isFinished]).toEqual(['Provider returned error', false])
      }
    })

    test('whose end is lost does not look finished', async () => {
      const pieces = await written(...answers)
      const wire = pieces.join('')
      for (let end = 0; end < wire.length - 1; end++) {
        const frames = split(wire.slice(0, end), false)
        expect([end, readEvents(frames).isFinished]).toEqual([end, false])
      }
    })

    test('that the client abandons ends the answer', async () => {
      const answer = createAnswer<Kind>(...answers)
      const events = opened(answer)
      await events.next()
      await events.return?.()
      expect(await answer.parts.next()).toMatchObject({ done: true })
    })
  })

  describe(`${name}: a call that failed after its stream had begun`, () => {
    test('is that error, and does not look finished', () => {
      const stream = begin()
      const keepAlive = stream.renderKeepAlive()
      const wire = stream.renderFailure(FAILURE)
      expectComplete(wire)
      const reading = readTexts([keepAlive, wire])
      expect(reading).toMatchObject({ text: '', failure: 'Slow down', isFinished: false })
      expect(joinData(wire)).toContain('"gen-1"')
    })

    test('has the sibling fields that the caller requested', () => {
      const wire = streaming.renderFailure(
        heading,
        FAILURE.with({ siblingFields: ROUTING }),
        call(),
        body,
      )
      expect(joinData(wire)).toContain(SHOWN)
    })
  })

  describe(`${name}: a keep-alive`, () => {
    test('is a complete comment, or events of the stream', () => {
      const stream = begin()
      for (const text of [stream.renderKeepAlive(), stream.renderKeepAlive()]) {
        expect(text).not.toBe('')
        expectComplete(text)
      }
    })

    test('does not change the answer around it', async () => {
      const stream = begin()
      const kept: string[] = []
      const events = stream.streamEvents(createAnswer<Kind>(...answers))
      let waited = stream.renderKeepAlive()
      for await (const piece of texts(events)) {
        kept.push(waited, piece)
        waited = stream.renderKeepAlive()
      }
      expect(readTexts(kept)).toEqual(readTexts(await written(...answers)))
    })
  })
}

async function* texts(events: AsyncIterator<string>): AsyncGenerator<string> {
  for (let step = await events.next(); !step.done; step = await events.next()) yield step.value
}

/** Parses the events in a text. An unfinished one counts unless the connection is lost. */
function parseFrames(wire: string, hasEnded: boolean): Frame[] {
  const scanner = new SseScanner()
  return [...scanner.feed(Buffer.from(wire)), ...(hasEnded ? scanner.end() : [])]
}

function catchError(act: () => unknown): unknown {
  try {
    return act()
  } catch (thrown) {
    return thrown
  }
}
