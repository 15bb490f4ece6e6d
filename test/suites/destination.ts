import { describe, expect, test } from 'bun:test'
import type { TSchema } from '@sinclair/typebox'
import fc from 'fast-check'
import { findSchemaIssue } from '../../src/base/schema.ts'
import { judgeAnswer, passesTest } from '../../src/observability/destinations/judge.ts'
import type { DeliveryRequest, DestinationKind } from '../../src/observability/destinations/kind.ts'
import type { Trace } from '../../src/observability/destinations/trace.ts'
import { listTexts, SAMPLES, WORLD } from '../support/destination-samples.ts'
import { generateText } from '../support/texts.ts'
import {
  buildHostileTrace,
  CANCELLED_TRACE,
  EXTENDED_TRACE,
  FAILED_TRACE,
  HOSTILE_TEXTS,
  PRIVATE_TRACE,
  TRACE,
} from '../support/trace-samples.ts'

/** Statuses, and what becomes of a delivery that is answered with them and no body. */
const VERDICTS = [
  ...([200, 201, 202, 204] as const).map(status => [status, 'delivered'] as const),
  ...([301, 302, 307, 400, 401, 403, 404, 410, 422] as const).map(
    status => [status, 'refused'] as const,
  ),
  ...([408, 425, 429, 500, 502, 503, 504, 529] as const).map(status => [status, 'retry'] as const),
  [413, 'split'] as const,
]

const PAGES = [
  '<!DOCTYPE html><html><body>Sign in</body></html>',
  '\n<html lang="en">\n',
  '\ufeff<HTML><HEAD>',
]

/** A text longer than any vendor takes in one value. */
const HUGE = 'CONTENT-HUGE '.repeat(1_000_000)

/** Values of fields: any JSON, any text, and texts that are nearly what a field wants. */
const anyFieldValue = fc.oneof(
  fc.jsonValue(),
  generateText(),
  fc.string(),
  fc
    .tuple(
      fc.constantFrom('https://', 'http://', 'https://a@', 'HTTPS:', ''),
      fc.constantFrom('example.com', '[::1]', 'a b', '127.1', 'ü.example', ''),
      fc.constantFrom(
        '',
        '/',
        '/v1',
        ':443',
        ':99999',
        '/\n',
        '?a=1',
        '#b',
        '/../x',
        '/42',
        '/%0a',
      ),
      fc.string({ maxLength: 2 }),
    )
    .map(parts => parts.join('')),
  fc.stringMatching(/^[{}./a-zA-Z]{0,12}$/),
  fc.dictionary(fc.string({ maxLength: 5 }), fc.string({ maxLength: 5 })),
)

/** Tests what every kind of destination promises. */
export function testDestination(kind: DestinationKind): void {
  const sample = SAMPLES[kind.type]
  const full = { ...sample.least, ...sample.others, headers: { 'X-Team': 'observability' } }
  const properties: Record<string, TSchema> = kind.config.properties
  const readTexts = sample.readTexts ?? (body => listTexts(JSON.parse(String(body))))
  const render = (trace: Trace, config: object = sample.least) =>
    kind.render(WORLD, config as never, [trace])
  const renderTest = (config: object = sample.least) => kind.renderTest(WORLD, config as never)
  const findIssue = (config: object) => findSchemaIssue(kind.config, config)
  const tell = (trace: Trace): string => readTexts(render(trace).body).join('\n')

  describe(`D-13 ${kind.type}: the config`, () => {
    test('passes with the required fields and with every field', () => {
      expect(findIssue(sample.least)).toBeUndefined()
      expect(findIssue(full)).toBeUndefined()
      expect(Object.keys(full).toSorted()).toEqual(Object.keys(properties).toSorted())
    })

    test.each(Object.keys(sample.least))('%s is required', name => {
      const { [name]: _, ...rest } = sample.least
      expect(findIssue(rest)?.path).toBe(name)
    })

    test.each(Object.keys(properties))('%s is refused in another type', name => {
      for (const value of [null, 7, true, [], name === 'headers' ? 'text' : {}])
        expect(findIssue({ ...sample.least, [name]: value })?.path).toBe(name)
    })

    test.each(Object.keys(properties).filter(name => name !== 'headers'))(
      '%s has a longest value',
      name => {
        const value = 'a'.repeat(100_000)
        const prefix = /url|endpoint|host|dsn/i.test(name) ? 'https://a.example/' : ''
        expect(findIssue({ ...sample.least, [name]: prefix + value })?.path).toBe(name)
      },
    )

    const listValues = (table: Record<string, unknown[]> = {}) =>
      Object.entries(table).flatMap(([name, values]) => values.map(value => [name, value] as const))

    test.each(listValues(sample.refused))('%s %j is refused', (name, value) => {
      expect(findIssue({ ...sample.least, [name]: value })?.path).toBe(name)
    })

    test.each(listValues(sample.accepted))('%s %j passes', (name, value) => {
      const config = { ...sample.least, [name]: value }
      expect(findIssue(config)).toBeUndefined()
      expect(URL.canParse(kind.render(WORLD, config as never, [TRACE]).url)).toBe(true)
    })

    test('a field that there is not is refused', () => {
      expect(findIssue({ ...sample.least, apikey2: 'x' })?.path).toBe('apikey2')
    })

    test.each([
      ...['Content-Type', 'content-length', 'HOST', 'Transfer-Encoding', ...sample.ownHeaders],
      ...['', 'a b', 'a:b', 'x\r\ny', 'ü'],
    ])('a header %j is refused', name => {
      expect(findIssue({ ...sample.least, headers: { [name]: 'x' } })?.path).toBe('headers')
    })

    test.each(['a\r\nX-Injected: yes', 'a\n', '\u0000', 'ü', ' a', 'a'.repeat(8_193)])(
      'a header with the value %j is refused',
      value => {
        expect(findIssue({ ...sample.least, headers: { 'x-team': value } })?.path).toBe(
          'headers.x-team',
        )
      },
    )

    test('has no more than 64 headers', () => {
      const headers = (count: number) =>
        Object.fromEntries(Array.from({ length: count }, (_, i) => [`x-${i}`, 'a']))
      expect(findIssue({ ...sample.least, headers: headers(64) })).toBeUndefined()
      expect(findIssue({ ...sample.least, headers: headers(65) })?.path).toBe('headers')
    })

    test('is refused with a path, or makes requests that can be sent, whatever it holds', () => {
      const name = fc.constantFrom(...Object.keys(properties))
      fc.assert(
        fc.property(name, anyFieldValue, (field, value) => {
          const config = { ...full, [field]: value }
          const issue = findIssue(config)
          if (issue) return expect(issue.path.split('.')[0]).toBe(field)
          for (const { url, headers } of [render(TRACE, config), renderTest(config)]) {
            expect(new URL(url).protocol).toMatch(/^https?:$/)
            expect(new Headers(headers).get('content-type')).toBeString()
          }
        }),
        { numRuns: 100 },
      )
    })

    test('names its secrets and the fields that say where they go', () => {
      const secrets = Object.keys(full).filter(name =>
        JSON.stringify(full[name as keyof typeof full]).includes('SECRET'),
      )
      expect(kind.secrets.toSorted()).toEqual(secrets.toSorted())
      for (const name of kind.address) expect(properties).toHaveProperty(name)
    })
  })

  describe(`${kind.type}: a delivery`, () => {
    test('goes to the vendor’s URL, or to the config’s', () => {
      expect([render(TRACE), render(TRACE, full)].map(({ url }) => url.split('?')[0])).toEqual(
        sample.urls,
      )
    })

    test('has headers that can be sent, the custom ones among them, once each', () => {
      const { headers } = render(TRACE, full)
      expect(Object.keys(headers)).toEqual(Object.keys(headers).map(name => name.toLowerCase()))
      expect(Object.fromEntries(new Headers(headers))).toEqual(headers)
      expect(headers['x-team']).toBe('observability')
      expect(headers['content-type']).toMatch(/^application\/(json|x-ndjson|x-protobuf)$/)
    })

    test('a custom header that got around the schema overrides none', () => {
      const sent = Object.keys(render(TRACE).headers)
      const names = [...sample.ownHeaders, 'Content-Type'].filter(name =>
        sent.includes(name.toLowerCase()),
      )
      const headers = Object.fromEntries(names.map(name => [name, 'overridden']))
      expect(Object.values(render(TRACE, { ...sample.least, headers }).headers)).not.toContain(
        'overridden',
      )
    })

    test('tells the call, with its contents', () => {
      const told = tell(TRACE)
      for (const text of [
        ...['CONTENT-RULES', 'CONTENT-QUESTION', 'CONTENT-ARGUMENT', 'CONTENT-RESULT'],
        ...['CONTENT-ANSWER', 'CONTENT-SUM', 'META-TEAM', 'META-TAG'],
        ...['anthropic/claude-sonnet-4.5', 'user-7', 'session-9', TRACE.id, 'openrouter'],
      ].filter(text => text !== 'openrouter' || kind.type !== 'datadog'))
        expect(told).toContain(text)
    })

    test('D-08 in privacy mode tells the call without any content', () => {
      const { url, headers, body } = render(PRIVATE_TRACE)
      const told = tell(PRIVATE_TRACE)
      expect(url + JSON.stringify(headers) + Buffer.from(body).toString('latin1')).not.toContain(
        'CONTENT',
      )
      expect(told).not.toMatch(/gen_ai\.(prompt|completion)|\$ai_(input|output_choices)$/m)
      for (const text of ['META-TEAM', 'user-7', 'session-9', TRACE.id])
        expect(told).toContain(text)
    })

    test('tells the groups that were opted into, and nothing of them otherwise', () => {
      expect(tell(TRACE)).not.toContain('openrouter_generation')
      const told = tell(EXTENDED_TRACE)
      for (const text of ['openrouter_generation', 'usage_cache', 'app.title', 'EXTRA-TITLE'])
        expect(told).toContain(text)
    })

    test.each([
      ['failed', FAILED_TRACE, 'Provider returned error'],
      ['was cancelled', CANCELLED_TRACE, 'The client has disconnected'],
    ])('tells a call that %s, and why', (_, trace, message) => {
      const told = tell(trace)
      expect(told).toContain(trace.id)
      if (kind.type === 'clickhouse' || kind.type === 'snowflake') expect(told).toContain('ERROR')
      expect(told).toContain(message)
    })

    test('has as many traces as a batch may', () => {
      const traces = Array.from({ length: kind.batchSize }, (_, i) => ({
        ...TRACE,
        id: `gen-in-batch-${i}-`,
      }))
      const told = readTexts(kind.render(WORLD, sample.least as never, traces).body).join('\n')
      for (const { id } of traces) expect(told).toContain(id)
    })

    test('of the same trace is the same, so that one that comes again can be known', () => {
      const later = { ...WORLD, now: WORLD.now + 3_600_000 }
      const again = kind.render(later, sample.least as never, [TRACE])
      expect(again.url).toBe(render(TRACE).url)
      expect(readTexts(again.body).filter(text => !text.startsWith('2026-11-22T1'))).toEqual(
        readTexts(render(TRACE).body).filter(text => !text.startsWith('2026-11-22T1')),
      )
    })

    test.each(HOSTILE_TEXTS)('D-04 stands %j wherever a stranger may write it', text => {
      const plain = render(TRACE)
      const hostile = render(buildHostileTrace(text))
      const [path, expected] = [hostile, plain].map(({ url }) => new URL(url))
      expect(path?.host).toBe(expected?.host as string)
      if (kind.type !== 's3') expect(hostile.url).toBe(plain.url)
      expect(withoutSignature(hostile)).toEqual(withoutSignature(plain))
      const texts = readTexts(hostile.body)
      for (const found of texts)
        expect([found.isWellFormed(), /[\ufffe\uffff]/.test(found), found.includes('\0')]).toEqual([
          ...[true, false, false],
        ])
      const noText = ['\0', '\ufffe', '\uffff']
      const received = [...text.toWellFormed()].map(one => (noText.includes(one) ? '\ufffd' : one))
      expect(texts).toContain(received.join(''))
    })

    test('D-04 bears a content of many megabytes', () => {
      const huge = {
        ...TRACE,
        input: [{ role: 'user', content: HUGE }],
        output: { completion: HUGE, reasoning: null },
      }
      const { body } = render(huge)
      expect(body.length).toBeLessThan(3.5 * HUGE.length)
      expect(Buffer.from(body.slice(0, 100_000)).toString('latin1')).toMatch(/CONTENT-HUGE|gen_ai/)
    })
  })

  describe(`${kind.type}: the secrets`, () => {
    const listRequests = () => [render(TRACE, full), renderTest(full)]

    test('stand in no body and in no URL', () => {
      for (const { url, body } of listRequests()) {
        expect(url).not.toContain('SECRET')
        const bytes = Buffer.from(body).toString('latin1')
        const allowed = sample.secretsInBody ?? []
        const rest = allowed.reduce(
          (text, name) => text.replace(String(full[name as never]), ''),
          bytes,
        )
        expect(rest).not.toContain('SECRET')
      }
    })

    test('authenticate a test as they do a delivery', () => {
      const [delivery, trial] = listRequests().map(readCredentials)
      expect(trial).toEqual(delivery as string[])
      if (kind.secrets.length > 0 && !sample.secretsInBody && !sample.secretsSign)
        expect(JSON.stringify(delivery)).toContain('SECRET')
    })
  })

  describe(`${kind.type}: a test`, () => {
    test('goes to the same host and tells no call', () => {
      const { url, headers, body } = renderTest(full)
      expect(new URL(url).host).toBe(new URL(render(TRACE, full).url).host)
      expect(Object.fromEntries(new Headers(headers))).toEqual(headers)
      expect(headers['x-team']).toBe('observability')
      expect(Buffer.from(body).length).toBeLessThan(1_000)
    })

    test('passes with 2xx and fails with a page or a refusal', () => {
      expect(passesTest(kind, { status: 200, text: '{}' })).toBe(true)
      for (const status of [302, 401, 403, 404, 500])
        expect(passesTest(kind, { status, text: '' })).toBe(false)
      if (kind.type === 'webhook') return
      for (const text of PAGES) expect(passesTest(kind, { status: 200, text })).toBe(false)
    })
  })

  describe(`${kind.type}: an answer`, () => {
    test.each(VERDICTS)('%i is %s', (status, verdict) => {
      expect(judgeAnswer(kind, { status, text: '' })).toBe(verdict)
      expect(judgeAnswer(kind, { status, text: '{"message":"…"}' })).toBe(verdict)
    })

    test('that is a page for people is no success of an API', () => {
      for (const text of PAGES)
        expect(judgeAnswer(kind, { status: 200, text })).toBe(
          kind.type === 'webhook' ? 'delivered' : 'retry',
        )
    })

    test('of any kind has a verdict', () => {
      for (const text of ['', 'null', '[]', '"ok"', '{', '{"partialSuccess":null}', '\u0000'])
        expect(judgeAnswer(kind, { status: 200, text })).toBe('delivered')
    })
  })
}

/** Lists what authenticates a request: headers, with Basic decoded and without what varies. */
const readCredentials = ({ headers }: DeliveryRequest): string[] =>
  Object.entries(headers)
    .filter(([name]) => /auth|key|token|space|parent|tenant|workspace|project/.test(name))
    .filter(([name]) => name !== 'x-test-connection')
    .map(
      ([name, value]) =>
        `${name}: ${decodeBasic(value).replace(/(Signature|SignedHeaders)=.*/, '')}`,
    )

const decodeBasic = (value: string): string =>
  value.startsWith('Basic ') ? Buffer.from(value.slice(6), 'base64').toString() : value

/** A request's method and headers, without what depends on the body. */
const withoutSignature = ({ method, headers }: DeliveryRequest) => ({
  method,
  headers: {
    ...headers,
    ...('x-amz-date' in headers ? { authorization: '', 'x-amz-content-sha256': '' } : {}),
  },
})
