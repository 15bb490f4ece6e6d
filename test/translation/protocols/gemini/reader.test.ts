import { describe, expect, test } from 'bun:test'
import { GatewayError } from '../../../../src/base/errors.ts'
import type { TextCall } from '../../../../src/language/call.ts'
import type { TextPart } from '../../../../src/language/part.ts'
import { gemini } from '../../../../src/translation/protocols/gemini.ts'
import { buildEndpoint, buildTextCall } from '../../../support/call.ts'
import { collectParts } from '../../../support/parts.ts'

const endpoint = buildEndpoint({ upstreamModel: 'gemini-3-flash-preview' })
const frame = (data: unknown) => ({
  event: null,
  data: typeof data === 'string' ? data : JSON.stringify(data),
})

/** Returns the parts of a streamed answer with these events and a clean end. */
function streamed(events: unknown[], call: Partial<TextCall> = {}, at = endpoint): TextPart[] {
  const reader = gemini.createReader(buildTextCall(call), at)
  return [...events.flatMap(event => reader.read(frame(event))), ...(reader.end?.() ?? [])]
}

const whole = (body: unknown, call: Partial<TextCall> = {}, at = endpoint) =>
  gemini.parseAnswer(body, buildTextCall(call), at)

/** Creates one event, or a whole answer, with these parts. */
const chunk = (parts: unknown[], candidate: object = {}, more: object = {}) => ({
  candidates: [{ content: { role: 'model', parts }, index: 0, ...candidate }],
  ...more,
})
const STOP = { finishReason: 'STOP' }
const text = (said: string, more: object = {}) => ({ text: said, ...more })
const called = (name: string, args: object = {}, more: object = {}) => ({
  functionCall: { name, args },
  ...more,
})
const without = (parts: TextPart[], ...types: string[]) =>
  parts.filter(part => !types.includes(part.type))
const FORMAT = 'google-gemini-v1'

describe('start and end', () => {
  test('starts once, with the id, model and service tier', () => {
    const first = {
      ...chunk([text('a')]),
      responseId: 'r-1',
      modelVersion: 'gemini-3',
      usageMetadata: { trafficType: 'ON_DEMAND_FLEX' },
    }
    const parts = streamed([first, { ...first, responseId: 'r-2' }])
    expect(parts.filter(part => part.type === 'start')).toEqual([
      { type: 'start', upstream_id: 'r-1', system_fingerprint: 'gemini-3', service_tier: 'flex' },
    ])
  })

  test('is complete only after a finish reason and the end of the connection', () => {
    const reader = gemini.createReader(buildTextCall(), endpoint)
    reader.read(frame(chunk([text('a')], STOP)))
    expect(reader.complete).toBe(false)
    expect(reader.end?.()).toEqual([{ type: 'finish', choice: 0, reason: 'stop', native: 'STOP' }])
    expect(reader.complete).toBe(true)
  })

  test('is not complete without a finish reason or without output', () => {
    for (const events of [[chunk([text('a')])], [], [{ usageMetadata: { promptTokenCount: 3 } }]]) {
      const reader = gemini.createReader(buildTextCall(), endpoint)
      for (const event of events) reader.read(frame(event))
      expect([reader.end?.(), reader.complete]).toEqual([[], false])
    }
  })

  test('is complete only if every alternative has ended', () => {
    const reader = gemini.createReader(buildTextCall(), endpoint)
    reader.read(
      frame({
        candidates: [
          { index: 0, ...STOP },
          { index: 1, content: { parts: [text('b')] } },
        ],
      }),
    )
    expect([reader.end?.(), reader.complete]).toEqual([[], false])
    reader.read(frame({ candidates: [{ index: 1, finishReason: 'MAX_TOKENS' }] }))
    expect(reader.end?.()).toMatchObject([
      { choice: 0, reason: 'stop' },
      { choice: 1, reason: 'length' },
    ])
  })

  test('a whole answer with output is complete without a finish reason', () => {
    expect(collectParts(whole(chunk([text('a')])))).toMatchObject({
      text: 'a',
      finish: { reason: 'stop', native: null },
    })
  })

  test('trap 78: reads a list of events that arrived in one piece', () => {
    expect(collectParts(whole([chunk([text('a')]), chunk([text('b')], STOP)]))).toMatchObject({
      text: 'ab',
      finish: { reason: 'stop', native: 'STOP' },
    })
  })

  const NONE = [
    null,
    'x',
    [],
    {},
    { candidates: [] },
    { candidates: [{}] },
    { candidates: 'x' },
    { usageMetadata: {} },
  ]

  test.each(NONE.map(body => [body]))('refuses %j', body => {
    expect(() => whole(body)).toThrow(expect.objectContaining({ type: 'provider_unavailable' }))
  })

  test('skips a few unreadable events, and fails on many', () => {
    const reader = gemini.createReader(buildTextCall(), endpoint)
    for (let i = 0; i < 20; i++) expect(reader.read(frame('{"candidates":['))).toEqual([])
    expect(() => reader.read(frame('[DONE]'))).toThrow(GatewayError)
  })
})

describe('contents of an answer', () => {
  test('emits text, and thoughts as reasoning', () => {
    const said = collectParts(
      streamed([
        chunk([text('Hm', { thought: true })]),
        chunk([text('.', { thought: true }), text('An')]),
        chunk([text('swer')], STOP),
      ]),
    )
    expect(said).toMatchObject({ text: 'Answer', reasoning: 'Hm.' })
    expect(said.details).toEqual([
      { type: 'reasoning.text', text: 'Hm', format: FORMAT, index: 0 },
      { type: 'reasoning.text', text: '.', format: FORMAT, index: 0 },
    ])
  })

  test('ignores empty text', () => {
    expect(
      without(
        streamed([chunk([text('')]), chunk([text('', { thought: true })], STOP)]),
        'start',
        'finish',
      ),
    ).toEqual([])
  })

  test('emits images as data URLs and audio, but no images drawn while thinking', () => {
    const media = (mimeType: string, data: string, more: object = {}) => ({
      inlineData: { mimeType, data },
      ...more,
    })
    const sketch = media('image/png', 'CCCC', { thought: true, thoughtSignature: 'no' })
    const parts = whole(
      chunk(
        [
          sketch,
          media('image/png', 'AAAA'),
          media('audio/L16;rate=24000', 'BBBB', { thoughtSignature: 'S' }),
        ],
        STOP,
      ),
    )
    expect(without(parts, 'start', 'finish')).toEqual([
      { type: 'image', choice: 0, url: 'data:image/png;base64,AAAA' },
      { type: 'audio-delta', choice: 0, audio: { data: 'BBBB' } },
      {
        type: 'reasoning-delta',
        choice: 0,
        text: '',
        details: [
          { type: 'reasoning.encrypted', data: 'S', id: 'media_1', format: FORMAT, index: 0 },
        ],
      },
    ])
  })

  test('emits tools that Google ran itself, with their results, as reasoning', () => {
    const parts = [
      { executableCode: { language: 'PYTHON', code: '1+1' }, thoughtSignature: 'S' },
      { codeExecutionResult: { outcome: 'OUTCOME_OK', output: '2' } },
      { toolCall: { toolType: 'GOOGLE_SEARCH_WEB', id: 'g1', args: { queries: ['x'] } } },
      { toolResponse: { toolType: 'GOOGLE_SEARCH_WEB', id: 'g1', response: { found: 1 } } },
      { executableCode: { language: 'PYTHON', code: 'loop()' } },
      text('2'),
    ]
    const said = collectParts(streamed([...parts.map(part => chunk([part])), chunk([], STOP)]))
    expect(said).toMatchObject({ text: '2', calls: [], reasoning: '', finish: { reason: 'stop' } })
    expect(said.details).toMatchObject([
      { type: 'reasoning.encrypted', data: 'S', id: 'server_0_0', index: 0 },
      {
        type: 'reasoning.server_tool_call',
        tool_name: 'code_execution',
        tool_call_id: 'server_0_0',
        arguments: '{"language":"PYTHON","code":"1+1"}',
        result: '{"outcome":"OUTCOME_OK","output":"2"}',
        index: 1,
      },
      {
        tool_name: 'GOOGLE_SEARCH_WEB',
        tool_call_id: 'g1',
        arguments: '{"queries":["x"]}',
        result: '{"found":1}',
        index: 2,
      },
      { tool_name: 'code_execution', result: '', index: 3 },
    ])
  })

  test('trap 51: emits logprobs in the chat API’s form', () => {
    const logprobsResult = {
      chosenCandidates: [{ token: 'é', logProbability: -0.5, tokenId: 7 }],
      topCandidates: [
        {
          candidates: [
            { token: 'é', logProbability: -0.5 },
            { token: 'e', logProbability: -1 },
          ],
        },
      ],
    }
    const [said] = without(whole(chunk([text('é')], { ...STOP, logprobsResult })), 'start')
    expect(said).toEqual({
      type: 'text-delta',
      choice: 0,
      text: 'é',
      logprobs: {
        content: [
          {
            token: 'é',
            logprob: -0.5,
            bytes: [195, 169],
            top_logprobs: [
              { token: 'é', logprob: -0.5, bytes: [195, 169] },
              { token: 'e', logprob: -1, bytes: [101] },
            ],
          },
        ],
      },
    })
  })
})

describe('tool calls', () => {
  test('trap 32: numbers calls across events that all contain a first call', () => {
    const said = collectParts(
      streamed([
        chunk([called('a', { x: 1 })]),
        chunk([called('a', { x: 2 })]),
        chunk([called('b')], STOP),
      ]),
    )
    expect(said.calls.map(({ name, input }) => [name, input])).toEqual([
      ['a', '{"x":1}'],
      ['a', '{"x":2}'],
      ['b', '{}'],
    ])
  })

  test('trap 20: generates stable and unique ids for calls without one', () => {
    const events = [
      chunk([called('a'), { functionCall: { id: 'g-1', name: 'a', args: {} } }, called('a')], STOP),
    ]
    const ids = collectParts(streamed(events)).calls.map(({ id }) => id)
    expect(ids).toEqual(['call_00000000000000000001_0_0', 'g-1', 'call_00000000000000000001_0_2'])
    expect(collectParts(whole(events[0])).calls.map(({ id }) => id)).toEqual(ids)
    expect(
      collectParts(streamed(events, { id: 'gen-1-00000000000000000002' })).calls[0]?.id,
    ).not.toBe(ids[0])
  })

  test('trap 26: keeps large integers exact in arguments', () => {
    const reader = gemini.createReader(buildTextCall(), endpoint)
    const parts = reader.read(
      frame(
        '{"candidates":[{"content":{"parts":' +
          '[{"functionCall":{"name":"a","args":{"id":12345678901234567890}}}]}}]}',
      ),
    )
    expect(collectParts(parts).calls[0]?.input).toBe('{"id":12345678901234567890}')
  })

  test('trap 22: restores the client’s tool names', () => {
    const tools = [{ type: 'function' as const, name: '1/mcp tool' }]
    expect(
      collectParts(whole(chunk([called('_1_mcp_tool')], STOP), { tools })).calls[0]?.name,
    ).toBe('1/mcp tool')
  })

  test('trap 68: STOP means tool_calls, even if the calls came in an earlier event', () => {
    const late = streamed([chunk([called('a')]), chunk([text('')], STOP)])
    expect(late.filter(part => part.type === 'finish')).toEqual([
      { type: 'finish', choice: 0, reason: 'tool_calls', native: 'STOP' },
    ])
    expect(collectParts(whole(chunk([called('a')], STOP))).finish?.reason).toBe('tool_calls')
  })

  test('trap 33: ties a signature to its call, under a unique index', () => {
    const { details, calls } = collectParts(
      streamed([
        chunk([text('Hm', { thought: true })]),
        chunk([called('a', {}, { thoughtSignature: 'S1' }), called('b')], STOP),
      ]),
    )
    expect(details).toEqual([
      { type: 'reasoning.text', text: 'Hm', format: FORMAT, index: 0 },
      { type: 'reasoning.encrypted', data: 'S1', id: calls[0]?.id ?? '', format: FORMAT, index: 1 },
    ])
  })

  test('trap 34: ties a signature to its own part, not to the next', () => {
    const thought = (said: string, more: object = {}) => text(said, { thought: true, ...more })
    const { details } = collectParts(
      streamed([
        chunk([thought('a', { thoughtSignature: 'S1' }), thought('b')]),
        chunk([text('c', { thoughtSignature: 'S2' })]),
        chunk([text('', { thoughtSignature: 'S3' })], STOP),
      ]),
    )
    expect(details).toEqual([
      { type: 'reasoning.text', text: 'a', signature: 'S1', format: FORMAT, index: 0 },
      { type: 'reasoning.text', text: 'b', format: FORMAT, index: 1 },
      { type: 'reasoning.encrypted', data: 'S2', format: FORMAT, index: 2 },
      { type: 'reasoning.encrypted', data: 'S3', format: FORMAT, index: 3 },
    ])
  })

  test('trap 46: emits only the input of the answer function', () => {
    const asked = {
      tools: [{ type: 'function' as const, name: 'f' }],
      params: {
        response_format: {
          type: 'json_schema',
          json_schema: {
            name: 'x',
            schema: { type: 'object', properties: { a: { type: 'string' } } },
          },
        },
      },
    }
    const older = buildEndpoint({ upstreamModel: 'gemini-2.5-flash' })
    const answer = [chunk([text('Here: '), called('json', { a: 'b' })]), chunk([], STOP)]
    expect(collectParts(streamed(answer, asked, older))).toMatchObject({
      text: '{"a":"b"}',
      calls: [],
      finish: { reason: 'stop' },
    })
    expect(collectParts(streamed([chunk([called('f')], STOP)], asked, older))).toMatchObject({
      text: '',
      finish: { reason: 'tool_calls' },
    })
    expect(collectParts(streamed([chunk([called('json')], STOP)], asked))).toMatchObject({
      text: '',
      finish: { reason: 'tool_calls' },
    })
  })
})

describe('arguments in pieces', () => {
  const piece = (jsonPath: string, more: object) => ({ jsonPath, ...more })
  const args = (...partialArgs: unknown[]) => ({
    functionCall: { partialArgs, willContinue: true },
  })
  const begun = { functionCall: { name: 'f', willContinue: true } }
  const over = { functionCall: {} }
  const calls = (...parts: unknown[]) =>
    collectParts(streamed([...parts.map(part => chunk([part])), chunk([], STOP)])).calls.map(
      ({ input }) => input,
    )

  test('become one JSON text with the last piece', () => {
    const given = [
      args(piece('$.city', { stringValue: 'Bos', willContinue: true })),
      args(
        piece('$.city', { stringValue: 'ton "x"' }),
        piece('$.days[0].n', { numberValue: 1 }),
        piece('$.days[1].n', { numberValue: 0.5 }),
      ),
      args(
        piece('$.days[]', {}),
        piece('$.sure', { boolValue: false }),
        piece('$.none', { nullValue: 'NULL_VALUE' }),
        piece('$.tags[]', {}),
        piece('$.more', {}),
      ),
    ]
    expect(calls(begun, ...given, over)).toEqual([
      '{"city":"Boston \\"x\\"","days":[{"n":1},{"n":0.5}],' +
        '"sure":false,"none":null,"tags":[],"more":{}}',
    ])
  })

  test('end with a piece that announces no more', () => {
    expect(
      calls(begun, { functionCall: { partialArgs: [piece('$.a', { stringValue: 'b' })] } }),
    ).toEqual(['{"a":"b"}'])
  })

  test('drop the call if they are truncated', () => {
    expect(
      collectParts(
        streamed([
          chunk([begun]),
          chunk([args(piece('$.path', { stringValue: '/', willContinue: true }))], {
            finishReason: 'MAX_TOKENS',
          }),
        ]),
      ),
    ).toMatchObject({
      calls: [],
      finish: { reason: 'length' },
    })
  })

  test('that never end are no answer, unless it says that it was cut', () => {
    const broken = [
      chunk([text('Reading.')]),
      chunk([begun, args(piece('$.path', { stringValue: '/', willContinue: true }))]),
      chunk([], STOP),
    ]
    const reader = gemini.createReader(buildTextCall(), endpoint)
    for (const event of broken) reader.read(frame(event))
    expect(reader.end?.()).toEqual([])
    expect(reader.complete).toBe(false)
    expect(() => whole(broken)).toThrow(GatewayError)
    expect(() => whole(broken.slice(0, 2))).toThrow(GatewayError)
  })

  test('accept names that mean something to JavaScript', () => {
    expect(
      calls(
        begun,
        args(
          piece('$.__proto__.polluted', { boolValue: true }),
          piece(`$['a.b'].c`, { numberValue: 1 }),
        ),
        over,
      ),
    ).toEqual(['{"__proto__":{"polluted":true},"a.b":{"c":1}}'])
    expect(({} as Record<string, unknown>).polluted).toBeUndefined()
  })

  test('ignore an index far beyond a list and a path through a value', () => {
    expect(
      calls(
        begun,
        args(
          piece('$.a[999999999]', { numberValue: 1 }),
          piece('$.b', { numberValue: 1 }),
          piece('$.b.c', { numberValue: 1 }),
        ),
        over,
      ),
    ).toEqual(['{"a":[],"b":1}'])
  })

  test('are limited in size', () => {
    for (const path of [`$${'.a'.repeat(100)}`, `$${`['`.repeat(1_000_000)}`])
      expect(() => calls(begun, args(piece(path, { numberValue: 1 })))).toThrow(GatewayError)
    const long = args(piece('$.a', { stringValue: 'x'.repeat(1024 * 1024), willContinue: true }))
    expect(() => calls(begun, long, long, long, long, long)).toThrow(GatewayError)
  })
})

describe('finish reason', () => {
  test.each([
    ['STOP', 'stop'],
    ['MAX_TOKENS', 'length'],
    ['SAFETY', 'content_filter'],
    ['RECITATION', 'content_filter'],
    ['BLOCKLIST', 'content_filter'],
    ['PROHIBITED_CONTENT', 'content_filter'],
    ['SPII', 'content_filter'],
    ['IMAGE_SAFETY', 'content_filter'],
    ['MALFORMED_FUNCTION_CALL', 'error'],
    ['UNEXPECTED_TOOL_CALL', 'error'],
    ['OTHER', 'error'],
    ['toString', 'error'],
  ])('trap 69: %s is %s', (finishReason, reason) => {
    expect(collectParts(streamed([chunk([], { finishReason })])).finish).toEqual({
      reason,
      native: finishReason,
    } as never)
  })

  test('trap 87: a blocked prompt is an empty answer with its usage, streamed or whole', () => {
    const refused = {
      promptFeedback: { blockReason: 'PROHIBITED_CONTENT' },
      usageMetadata: { promptTokenCount: 4, totalTokenCount: 4 },
    }
    for (const parts of [whole(refused), streamed([refused, chunk([text('never')])])]) {
      expect(collectParts(parts)).toMatchObject({
        text: '',
        finish: { reason: 'content_filter', native: 'PROHIBITED_CONTENT' },
        usage: { input: { text: 4 } },
      })
      expect(parts.filter(part => part.type === 'finish')).toHaveLength(1)
    }
  })

  test('ignores an unspecified block reason', () => {
    const judged = {
      promptFeedback: { blockReason: 'BLOCK_REASON_UNSPECIFIED', safetyRatings: [] },
    }
    expect(collectParts(whole({ ...chunk([text('a')], STOP), ...judged }))).toMatchObject({
      text: 'a',
      finish: { reason: 'stop' },
    })
  })

  test('traps 75 and 78: throws an error inside an answer, in a list or not', () => {
    const error = { code: 503, message: 'The model is overloaded.', status: 'UNAVAILABLE' }
    for (const event of [{ error }, [{ error }]])
      expect(() => streamed([event])).toThrow(
        expect.objectContaining({
          type: 'provider_overloaded',
          metadata: { provider_code: 'UNAVAILABLE' },
        }),
      )
  })
})

describe('sources', () => {
  const groundingMetadata = {
    webSearchQueries: ['a', 'b'],
    groundingChunks: [
      { web: { uri: 'https://a.example/', title: 'A' } },
      { web: { uri: 'https://b.example/' } },
      { web: { uri: 'javascript:x' } },
      7,
    ],
    groundingSupports: [
      { segment: { startIndex: 4, endIndex: 9, text: 'größe' }, groundingChunkIndices: [0, 9] },
    ],
  }
  const cited = (url_citation: object) => ({ type: 'url_citation', url_citation })

  test('cites a source once, with its range if it supports a passage', () => {
    const { annotations, usage } = collectParts(
      streamed([
        chunk([text('Ä: gr')]),
        chunk([text('öße')], { groundingMetadata }),
        chunk([], { ...STOP, groundingMetadata }, { usageMetadata: { promptTokenCount: 1 } }),
      ]),
    )
    expect(annotations).toEqual([
      cited({ url: 'https://a.example/', title: 'A', start_index: 3, end_index: 8 }),
      cited({ url: 'https://b.example/' }),
    ])
    expect(usage?.units?.search).toBe(2)
  })

  test('cites quotations, pages that were read and places on maps', () => {
    const candidate = {
      ...STOP,
      citationMetadata: {
        citationSources: [{ startIndex: 0, uri: 'https://repeated.example/', license: 'mit' }],
      },
      urlContextMetadata: {
        urlMetadata: [
          {
            retrievedUrl: 'https://read.example/',
            urlRetrievalStatus: 'URL_RETRIEVAL_STATUS_SUCCESS',
          },
        ],
      },
      groundingMetadata: {
        groundingChunks: [
          { maps: { uri: 'https://maps.example/', title: 'M' } },
          { image: { sourceUri: 'https://image.example/', imageUri: 'https://i.example/x.png' } },
        ],
      },
    }
    expect(collectParts(whole(chunk([text('a')], candidate))).annotations).toEqual(
      [
        { url: 'https://maps.example/', title: 'M' },
        { url: 'https://image.example/' },
        { url: 'https://repeated.example/' },
        { url: 'https://read.example/' },
      ].map(cited),
    )
  })
})

describe('hostile answers', () => {
  const NASTY = [
    null,
    0,
    -1,
    1e308,
    '',
    'x',
    true,
    [],
    {},
    [null],
    [[]],
    { parts: 7 },
    { parts: [null, 1, 'x', {}] },
  ]
  const PLACES = [
    'candidates',
    'usageMetadata',
    'promptFeedback',
    'responseId',
    'modelVersion',
    'error',
  ]
  const IN_CANDIDATE = [
    'content',
    'finishReason',
    'index',
    'groundingMetadata',
    'citationMetadata',
    'urlContextMetadata',
    'logprobsResult',
  ]
  const IN_PART = [
    'text',
    'thought',
    'thoughtSignature',
    'functionCall',
    'inlineData',
    'executableCode',
    'codeExecutionResult',
    'toolCall',
    'toolResponse',
  ]

  /** Anything else than one of our own errors is a bug. */
  function survives(body: unknown): void {
    for (const read of [() => whole(body), () => streamed([body, body])]) {
      try {
        read()
      } catch (thrown) {
        expect(thrown).toBeInstanceOf(GatewayError)
      }
    }
  }

  test.each([...PLACES, ...IN_CANDIDATE, ...IN_PART])(
    'any JSON in place of %s is read or a failure',
    place => {
      for (const value of NASTY) {
        survives({ [place]: value })
        survives({ candidates: [{ content: { parts: [text('a')] }, ...STOP, [place]: value }] })
        survives(
          chunk(
            [
              { [place]: value },
              { functionCall: { name: 'f', [place]: value, partialArgs: value, args: value } },
            ],
            STOP,
          ),
        )
        survives(
          chunk(
            [
              { inlineData: value },
              { toolCall: { toolType: value, id: value, args: value } },
              { toolResponse: value },
            ],
            STOP,
          ),
        )
      }
    },
  )

  test('limits alternatives and calls', () => {
    const many = Array.from({ length: 500 }, () => called('f'))
    expect(collectParts(whole(chunk(many, STOP))).calls).toHaveLength(128)
    const crowd = Array.from({ length: 500 }, (_, index) => ({ index, ...STOP }))
    expect(streamed([{ candidates: crowd }]).filter(part => part.type === 'finish')).toHaveLength(
      128,
    )
  })
})

describe('values that cannot be converted to text', () => {
  const NO_TEXT = { toString: 1, valueOf: 1 }

  test('are no sources', () => {
    const groundingMetadata = {
      groundingChunks: [{ web: { uri: 'https://a.example/', title: 'A' } }],
      groundingSupports: [
        { segment: { text: 'said' }, groundingChunkIndices: [NO_TEXT, '0', -1, 0.5] },
      ],
    }
    const annotations = whole(chunk([text('said')], { ...STOP, groundingMetadata })).filter(
      part => part.type === 'annotation',
    )
    expect(annotations).toEqual([
      {
        type: 'annotation',
        choice: 0,
        annotation: {
          type: 'url_citation',
          url_citation: { url: 'https://a.example/', title: 'A' },
        },
      },
    ])
  })

  test('are no service tier', () => {
    const usageMetadata = { serviceTier: NO_TEXT }
    expect(whole({ ...chunk([text('a')], STOP), usageMetadata })[0]).toMatchObject({
      type: 'start',
      service_tier: null,
    })
  })
})

test('words count as the answer if the function that stands for it is not called', () => {
  const endpoint = buildEndpoint({ protocol: 'gemini', upstreamModel: 'gemini-2.5-flash' })
  const call = buildTextCall({
    tools: [{ type: 'function', name: 'f' }],
    params: {
      response_format: { type: 'json_schema', json_schema: { name: 'a', schema: {} } } as never,
    },
  })
  const read = (...parts: object[]) =>
    gemini
      .parseAnswer(
        { candidates: [{ content: { role: 'model', parts }, finishReason: 'STOP' }] },
        call,
        endpoint,
      )
      .flatMap(part => (part.type === 'text-delta' ? part.text : []))
      .join('')
  const answer = { functionCall: { name: 'json', args: { a: 1 } } }
  expect(read({ text: '{"a":' }, { text: '2}' })).toBe('{"a":2}')
  expect(read({ text: 'Here:' }, answer)).toBe('{"a":1}')
})
