import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { buildRoutesConfig, readGenerationId, sendChat } from '../support/chat.ts'
import { runCommand } from '../support/commands.ts'
import { type Server, startServer } from '../support/server.ts'
import {
  body,
  errorBody,
  event,
  json,
  type Script,
  sseHead,
  startUpstream,
  status,
  type Upstream,
} from '../support/upstream.ts'

/** Why a provider refuses a call. */
const REASON = "Unsupported value: 'temperature' does not support 0.3 with this model."
/** The credential of the gateway, in no known form of keys. */
const CREDENTIAL = 'our-own-credential'
/** A key of somebody else, in OpenAI's form. */
const STRANGE = `sk-proj-${'aB3dE6gH9jK2mN5pQ8sT1vW4'.repeat(2)}`

interface Attempt {
  status: number
  request_id: string | null
  error: { type: string; code: string | null; message: string | null } | null
}

let server: Server
let first: Upstream
let second: Upstream

beforeAll(async () => {
  ;[first, second] = await Promise.all([startUpstream(), startUpstream()])
  const config = buildRoutesConfig({
    'acme/small': { first: first.url, second: second.url },
    'acme/one': { first: first.url },
  })
  config.providers.first = { ...config.providers.first, api_key: CREDENTIAL } as object
  server = await startServer({ config })
})

afterAll(async () => {
  await server[Symbol.asyncDispose]()
  await Promise.all([first.close(), second.close()])
})

/** Makes a call, and reads it as its caller and as the operator see it. */
async function call(script: Script, request: object = {}) {
  first.plan(script)
  const outcome = await sendChat(server, { model: 'acme/one', ...request }).outcome()
  const id = readGenerationId(outcome)
  const read = async (response: Response) =>
    ((await response.json()) as { data: { provider_responses: Attempt[] } }).data
  const asCaller = await read(await server.fetch(`/generation?id=${id}`))
  const shown = await runCommand(['generations', 'get', id, '--json', '--data', server.data])
  const asOperator = JSON.parse(shown.stdout).data as { provider_responses: Attempt[] }
  return { id, outcome, asCaller, asOperator }
}

const refusal = (code: number, message: string, headers = {}) =>
  status(
    code,
    { error: { message, type: 'invalid_request_error', code: 'unsupported_value' } },
    headers,
  )

describe('a refused call', () => {
  test('tells its caller in the provider’s words what to mend', async () => {
    const { outcome, asCaller, asOperator } = await call(refusal(400, REASON))
    expect(JSON.parse(outcome.body).error).toMatchObject({
      code: 400,
      message: `The provider refused the request as invalid: ${REASON}`,
      metadata: { error_type: 'invalid_request', raw: REASON, provider_code: 'unsupported_value' },
    })
    const error = { type: 'invalid_request', code: 'unsupported_value', message: REASON }
    expect(asCaller.provider_responses).toMatchObject([{ status: 400, error }])
    expect(asOperator.provider_responses).toMatchObject([{ status: 400, error }])
  })

  test('tells it inside a stream too', async () => {
    const message = 'The image could not be read'
    const { outcome } = await call([sseHead(), event(errorBody(400, message)), ''], {
      stream: true,
    })
    expect(JSON.parse(outcome.body).error).toMatchObject({ code: 400, metadata: { raw: message } })
  })

  test.each([
    ['of FastAPI', { detail: [{ loc: ['body', 'n'], msg: 'Input should be 1', type: 'x' }] }],
    ['in one text', { error: 'Input should be 1' }],
    ['in a list', { errors: [{ message: 'Input should be 1' }] }],
    ['of problem details', { title: 'Input should be 1', status: 422 }],
  ])('is understood in the form %s', async (_, answer) => {
    const { outcome } = await call(json(answer, { status: 422 }))
    expect(JSON.parse(outcome.body).error.metadata.raw).toBe('Input should be 1')
  })

  test('X-33 has no credential, no control character and no more than 500 characters', async () => {
    const { outcome, asOperator } = await call(
      refusal(400, `${CREDENTIAL} and ${STRANGE}\u001b[2J\n${'so '.repeat(2_000)}`),
    )
    const message = asOperator.provider_responses[0]?.error?.message ?? ''
    expect(message).toStartWith('[secret] and [secret]\uFFFD[2J so so')
    expect(message).toMatch(/^.{500}…$/)
    expect(JSON.parse(outcome.body).error.metadata.raw).toBe(message)
  })
})

describe('X-33 a failure of our account or of the provider', () => {
  test.each([
    [401, 'Incorrect API key provided'],
    [402, 'You exceeded your current quota'],
    [403, 'Your account is not in a supported region'],
    [404, 'The model up does not exist'],
    [429, 'Rate limit reached in organization acme-27'],
    [500, 'Worker 7 of rack 12 is down'],
  ])('%i is for the operator alone', async (code, message) => {
    const { outcome, asCaller, asOperator } = await call(refusal(code, message))
    expect(outcome.body).not.toContain(message)
    expect(JSON.stringify(asCaller)).not.toContain(message)
    expect(asOperator.provider_responses).toMatchObject([{ status: code, error: { message } }])
  })

  test.each([
    ['x-request-id', 'req_8f2'],
    ['request-id', 'req_011CS'],
    ['x-amzn-requestid', 'b8a6-44'],
    ['apim-request-id', 'a-1'],
    ['x-goog-request-id', 'g-1'],
    ['cf-ray', '8c1-AMS'],
  ])('%s is kept', async (name, value) => {
    const { asOperator } = await call(refusal(500, 'No', { [name]: value }))
    expect(asOperator.provider_responses[0]?.request_id).toBe(value)
  })

  test('in words of a proxy is kept', async () => {
    const page = '<html><title>503 Service Unavailable</title><body>upstream</body></html>'
    const paged = await call(body('text/html', page, { status: 503 }))
    expect(paged.asOperator.provider_responses[0]?.error?.message).toBe('503 Service Unavailable')
    const worded = await call(body('text/plain', 'no healthy upstream', { status: 503 }))
    expect(worded.asOperator.provider_responses[0]?.error?.message).toBe('no healthy upstream')
  })

  test('is kept for each attempt, and for an answer that breaks off', async () => {
    second.plan([
      sseHead(),
      event({ choices: [{ index: 0, delta: { content: 'Hel' } }] }),
      event(errorBody(503, 'Engine restarts')),
      '',
    ])
    const { asOperator } = await call(refusal(500, 'Rack 12', { 'x-request-id': 'r-1' }), {
      model: 'acme/small',
      stream: true,
    })
    expect(asOperator.provider_responses).toMatchObject([
      { status: 500, request_id: 'r-1', error: { message: 'Rack 12' } },
      { status: 200, request_id: null, error: { message: 'Engine restarts' } },
    ])
  })
})

test('the log has the reason with the provider’s request id', async () => {
  const own = await startServer({
    config: buildRoutesConfig({ 'acme/one': { first: first.url } }),
    args: ['--log', 'json'],
  })
  first.plan(refusal(500, 'Rack 12 "is down"\nforged', { 'x-request-id': 'r-9' }))
  const outcome = await sendChat(own, { model: 'acme/one' }).outcome()
  const { stderr } = await own.stop()
  await own[Symbol.asyncDispose]()
  const line = stderr.split('\n').find(one => one.includes('attempt.failed')) ?? ''
  expect(JSON.parse(line)).toMatchObject({
    event: 'attempt.failed',
    generation: readGenerationId(outcome),
    provider: 'first',
    status: 500,
    reason: 'Rack 12 "is down" forged',
    provider_request_id: 'r-9',
  })
})
