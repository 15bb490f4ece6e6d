import { beforeAll, describe, expect, test } from 'bun:test'
import type { Gateway } from '../../../src/app/gateway.ts'
import { type Json, readObject, readObjects } from '../../../src/base/json.ts'
import type { TextCall } from '../../../src/language/call.ts'
import type { FinishReason, TextPart } from '../../../src/language/part.ts'
import { getOperator } from '../../../src/resources/actor.ts'
import { gemini } from '../../../src/translation/dialects/gemini.ts'
import { buildRequest, gemini as google } from '../../../src/translation/protocols/gemini.ts'
import { createAnswer, finish, receipt, start, text } from '../../support/answer.ts'
import { buildEndpoint, buildTextCall } from '../../support/call.ts'
import { testGateway } from '../../support/gateway.ts'

let gateway: Gateway

beforeAll(async () => {
  gateway = await testGateway()
})

const { id, origin } = buildTextCall()
const contents = [{ role: 'user', parts: [{ text: 'Hi' }] }]
const understand = (body: object): TextCall =>
  gemini.toCall(
    gateway,
    getOperator(gateway),
    { model: 'acme/small', stream: false, contents, ...body } as never,
    { id, origin, session_id: null, betas: [] },
  )

describe('a schema in Google’s form', () => {
  const convert = (parameters: object): unknown => {
    const [tool] = understand({
      tools: [{ functionDeclarations: [{ name: 'f', parameters }] }],
    }).tools
    return tool?.type === 'function' ? tool.parameters : undefined
  }

  test('lets a place be null that is one of several words', () => {
    expect(convert({ type: 'STRING', enum: ['a', 'b'], nullable: true })).toEqual({
      type: ['string', 'null'],
      enum: ['a', 'b', null],
    })
  })

  test('lets a place be null that has alternatives', () => {
    expect(convert({ anyOf: [{ type: 'STRING' }, { type: 'NUMBER' }], nullable: true })).toEqual({
      anyOf: [{ type: 'string' }, { type: 'number' }, { type: 'null' }],
    })
  })

  test('may have its names in snake_case, but for those of properties', () => {
    const properties = { min_items: { type: 'ARRAY', min_items: '2', items: { type: 'STRING' } } }
    expect(convert({ type: 'OBJECT', properties, property_ordering: ['min_items'] })).toEqual({
      type: 'object',
      properties: { min_items: { type: 'array', minItems: 2, items: { type: 'string' } } },
    })
  })
})

describe('calls that are held to their schemas', () => {
  const tools = [{ functionDeclarations: [{ name: 'f' }, { name: 'g' }] }]
  const calling = { mode: 'VALIDATED', allowed_function_names: ['f'] }
  const call = () => understand({ tools, tool_config: { function_calling_config: calling } })

  test('are of allowed functions only', () => {
    expect(call().tools).toMatchObject([{ name: 'f' }])
    expect(call().params).not.toHaveProperty('tool_choice')
  })

  test('are so for Google, and that is named for others', () => {
    const { body } = buildRequest(call(), buildEndpoint({ protocol: 'gemini' }))
    expect(body.toolConfig).toEqual({ functionCallingConfig: { mode: 'VALIDATED' } })
    expect(call().extra).toHaveProperty('toolConfig')
  })
})

test('thinking may be bounded in snake_case', () => {
  const read = (thinking_config: Json) =>
    understand({ generation_config: { thinking_config } }).params.reasoning
  expect(read({ thinking_budget: 0, include_thoughts: true })).toEqual({ enabled: false })
  expect(read({ thinking_level: 'LOW' })).toEqual({ effort: 'low', exclude: true })
})

test.each([
  ['data:image/webp;base64,UklGRg==', { inlineData: { mimeType: 'image/webp', data: 'UklGRg==' } }],
  // The call is paid for: its client gets what the provider gave.
  [
    'data:image/webp;base64,Ukl...',
    { fileData: { mimeType: 'image/png', fileUri: 'data:image/webp;base64,Ukl...' } },
  ],
  [
    'https://a.example/b.png',
    { fileData: { mimeType: 'image/png', fileUri: 'https://a.example/b.png' } },
  ],
])('the picture %s of an answer is shown', async (url, shown) => {
  const answer = createAnswer<'text'>([start, { type: 'image', choice: 0, url }, finish], [receipt])
  const whole = await gemini.collectResponse(answer, buildTextCall(), {} as never)
  expect(whole).toMatchObject({ candidates: [{ content: { parts: [shown] } }] })
})

describe('an answer', () => {
  const choice = 0
  const collect = async (...parts: TextPart[]) => {
    const answer = await gemini.collectResponse(
      createAnswer<'text'>([start, ...parts], [receipt]),
      buildTextCall(),
      {} as never,
    )
    return readObjects((answer as Json).candidates)[0]
  }

  test('has the logprobs that were asked for', async () => {
    const entry = (token: string, logprob: number, top_logprobs: Json[]) => ({
      ...{ token, logprob, bytes: null, top_logprobs },
    })
    const other = { token: 'Ho', logprob: -2, bytes: null }
    const candidate = await collect(
      { ...text('Hi'), logprobs: { content: [entry('Hi', -0.5, [other])] } } as TextPart,
      { ...text('!'), logprobs: { content: [entry('!', -1.5, [])] } } as TextPart,
      finish,
    )
    expect(candidate).toMatchObject({
      avgLogprobs: -1,
      logprobsResult: {
        chosenCandidates: [
          { token: 'Hi', logProbability: -0.5 },
          { token: '!', logProbability: -1.5 },
        ],
        topCandidates: [{ candidates: [{ token: 'Ho', logProbability: -2 }] }, { candidates: [] }],
      },
    })
  })

  test.each<[FinishReason, string, string]>([
    ['content_filter', 'RECITATION', 'RECITATION'],
    ['error', 'MALFORMED_FUNCTION_CALL', 'MALFORMED_FUNCTION_CALL'],
    ['content_filter', 'refusal', 'SAFETY'],
    ['error', 'RECITATION', 'OTHER'],
    ['tool_calls', 'STOP', 'STOP'],
    ['length', 'max_tokens', 'MAX_TOKENS'],
  ])('that ended by %s, as its provider has it %s, says %s', async (reason, native, said) => {
    expect(await collect(text('Hi'), { type: 'finish', choice, reason, native })).toMatchObject({
      finishReason: said,
    })
  })

  test('shows each source once, and what it supports in bytes', async () => {
    const cite = (url: string, start_index?: number, end_index?: number): TextPart => ({
      ...{ type: 'annotation', choice },
      annotation: {
        type: 'url_citation',
        url_citation: { url, title: 'A', start_index, end_index },
      },
    })
    const { groundingMetadata } = (await collect(
      text('Größe: '),
      text('groß.'),
      cite('https://a.example', 7, 11),
      cite('https://b.example'),
      cite('https://a.example', 0, 5),
      cite('https://a.example', 5, 500),
      finish,
    )) as Json
    const web = (uri: string) => ({ web: { uri, title: 'A' } })
    expect(groundingMetadata).toEqual({
      groundingChunks: [web('https://a.example'), web('https://b.example')],
      groundingSupports: [
        { segment: { startIndex: 9, endIndex: 14, text: 'groß' }, groundingChunkIndices: [0] },
        { segment: { startIndex: 0, endIndex: 7, text: 'Größe' }, groundingChunkIndices: [0] },
      ],
    })
  })

  test('that refuses says so', async () => {
    const refusal: TextPart = { type: 'refusal-delta', choice, text: 'No.' }
    expect(await collect(refusal, finish)).toMatchObject({
      content: { parts: [{ text: 'No.' }] },
      finishReason: 'SAFETY',
    })
  })
})

describe('what Google’s own tools did', () => {
  const code = { executableCode: { language: 'PYTHON', code: '6 * 7' } }
  const result = { codeExecutionResult: { outcome: 'OUTCOME_OK', output: '42' } }
  const called = { toolCall: { toolType: 'GOOGLE_SEARCH', id: 's1', args: { q: 'a' } } }
  const found = { toolResponse: { toolType: 'GOOGLE_SEARCH', id: 's1', response: { a: 1 } } }
  const endpoint = buildEndpoint({ protocol: 'gemini' })
  const answer = async (parts: Json[]) => {
    const call = buildTextCall({ dialect: 'gemini' })
    const body = { candidates: [{ content: { role: 'model', parts }, finishReason: 'STOP' }] }
    const read = google.parseAnswer(body, call, endpoint)
    const whole = await gemini.collectResponse(createAnswer(read, [receipt]), call, {} as never)
    const [candidate] = readObjects((whole as Json).candidates)
    return readObjects(readObject(candidate ?? {}, 'content').parts)
  }
  const sendBack = (parts: Json[]) => {
    const turns = [...contents, { role: 'model', parts }, ...contents]
    const { body } = buildRequest(understand({ contents: turns }), endpoint)
    return readObjects(readObjects(body.contents)[1]?.parts)
  }

  test('is shown to its clients, who send it back', async () => {
    const shown = await answer([code, result, called, found, { text: '42' }])
    expect(shown.slice(0, 5)).toEqual([code, result, called, found, { text: '42' }])
    expect(sendBack(shown)).toEqual([code, result, called, found, { text: '42' }])
  })

  test('goes back to Google also if Google showed it', () => {
    const signed = { ...code, thoughtSignature: 'c2ln' }
    const parts = [signed, result, called, found, { text: '42' }]
    expect(sendBack(parts)).toEqual(parts)
  })
})

test('members of the config that the gateway does not know go to Google as they came', () => {
  const speechConfig = {
    multiSpeakerVoiceConfig: { speakerVoiceConfigs: [{ speaker: 'Joe' }] },
    languageCode: 'de-DE',
  }
  const generationConfig = { responseModalities: ['AUDIO'], speechConfig, mediaResolution: 'LOW' }
  const { body } = buildRequest(understand({ generationConfig }), buildEndpoint())
  expect(body.generationConfig).toEqual(generationConfig)
})
