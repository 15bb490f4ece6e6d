import { describe, expect, test } from 'bun:test'
import type { TextCall } from '../../../../src/language/call.ts'
import type { Block, Message } from '../../../../src/language/message.ts'
import { gemini } from '../../../../src/translation/protocols/gemini.ts'
import { buildEndpoint, buildProvider, buildTextCall } from '../../../support/call.ts'
import { collectParts } from '../../../support/parts.ts'

const at = (upstreamModel: string) => buildEndpoint({ upstreamModel })
const NEW = at('gemini-3-flash-preview')
const OLD = at('gemini-2.0-flash')
const VERTEX = buildEndpoint({
  upstreamModel: 'gemini-3-flash-preview',
  provider: buildProvider({
    base_url: 'https://x.example/v1/projects/p/locations/l/publishers/google',
  }),
})

const sent = (call: Partial<TextCall>, endpoint = NEW) =>
  gemini.buildRequest(buildTextCall(call), endpoint).body
const configOf = (params: TextCall['params'], endpoint = NEW) =>
  sent({ params }, endpoint).generationConfig as Record<string, unknown>
const contentsOf = (messages: Message[], endpoint = NEW) => sent({ messages }, endpoint).contents

const said = (text: string): Block => ({ type: 'text', text })
const user = (...blocks: Block[]): Message => ({ role: 'user', blocks })
const assistant = (...blocks: Block[]): Message => ({ role: 'assistant', blocks })
const called = (id: string, input = '{}', name = 'f'): Block => ({
  type: 'tool-call',
  id,
  name,
  input,
})
const result = (tool_call_id: string, ...blocks: Block[]): Message => ({
  role: 'tool',
  tool_call_id,
  blocks,
})
const tool = (name: string, parameters?: unknown) => ({
  type: 'function' as const,
  name,
  ...(parameters === undefined ? {} : { parameters }),
})

describe('the request', () => {
  test('a plain call has only contents', () => {
    expect(gemini.buildRequest(buildTextCall(), NEW)).toEqual({
      path: '/models/gemini-3-flash-preview:generateContent',
      body: { contents: [{ role: 'user', parts: [{ text: 'Hi' }] }] },
    })
  })

  test('a streamed call asks for events', () => {
    expect(gemini.buildRequest(buildTextCall({ stream: true }), NEW)).toMatchObject({
      path: '/models/gemini-3-flash-preview:streamGenerateContent?alt=sse',
    })
  })

  test('escapes a model name in the path, which may contain its own kind', () => {
    expect(gemini.buildRequest(buildTextCall(), at('x?y#z')).path).toBe(
      '/models/x%3Fy%23z:generateContent',
    )
    expect(gemini.buildRequest(buildTextCall(), at('tunedModels/mine')).path).toBe(
      '/tunedModels/mine:generateContent',
    )
  })

  test('passes on unknown parameters, which cannot overwrite known ones', () => {
    const extra = {
      safetySettings: [{ category: 'x' }],
      cachedContent: 'c',
      labels: { a: 'b' },
      contents: 'no',
      generationConfig: { mediaResolution: 'LOW', topK: 1 },
      generation_config: { maxOutputTokens: 65_536 },
      toolConfig: { retrievalConfig: {} },
      n: 2,
    }
    const body = sent({ extra, params: { top_k: 5, tool_choice: 'auto' }, tools: [tool('f')] })
    expect(body).toMatchObject({
      safetySettings: [{ category: 'x' }],
      cachedContent: 'c',
      labels: { a: 'b' },
    })
    expect(body.contents).toEqual([{ role: 'user', parts: [{ text: 'Hi' }] }])
    expect(body.generationConfig).toEqual({ mediaResolution: 'LOW', topK: 5, candidateCount: 2 })
    expect(body.toolConfig).toEqual({
      retrievalConfig: {},
      functionCallingConfig: { mode: 'AUTO' },
    })
    for (const name of ['n', 'generation_config']) expect(body).not.toHaveProperty(name)
    expect(Object.keys(sent({ extra, dialect: 'messages' }))).toEqual(['contents'])
  })

  test('leaves the call unchanged', () => {
    const call = buildTextCall({
      messages: [
        { role: 'system', blocks: [said('S')] },
        user(said('a')),
        user(said('b')),
        assistant(called('1')),
        result('1', said('x')),
      ],
      tools: [tool('a b', { type: 'object' })],
      params: { stop: ['a'], service_tier: 'flex' },
    })
    const before = structuredClone(call)
    gemini.buildRequest(call, NEW)
    expect(call).toEqual(before)
  })
})

describe('parameters', () => {
  test('renders the generationConfig', () => {
    const params = {
      max_tokens: 9,
      temperature: 0,
      top_p: 0.5,
      top_k: 40,
      frequency_penalty: 1,
      presence_penalty: -1,
      seed: 7,
      stop: ['a'],
    }
    expect(configOf(params)).toEqual({
      maxOutputTokens: 9,
      temperature: 0,
      topP: 0.5,
      topK: 40,
      frequencyPenalty: 1,
      presencePenalty: -1,
      seed: 7,
      stopSequences: ['a'],
    })
  })

  test('trap 53: omits parameters without an equivalent', () => {
    expect(
      configOf({
        min_p: 0.1,
        top_a: 0.2,
        repetition_penalty: 1,
        logit_bias: { '1': 1 },
        prediction: {},
        parallel_tool_calls: false,
        prompt_cache_key: 'k',
        verbosity: 'low',
        cache_control: { type: 'ephemeral' },
      }),
    ).toBeUndefined()
  })

  test('trap 50: sends at most five stop sequences', () => {
    expect(configOf({ stop: ['1', '2', '3', '4', '5', '6'] }).stopSequences).toEqual([
      '1',
      '2',
      '3',
      '4',
      '5',
    ])
  })

  test('trap 51: clamps the number of logprobs', () => {
    expect(configOf({ logprobs: true })).toEqual({ responseLogprobs: true })
    expect(configOf({ logprobs: true, top_logprobs: 0 })).toEqual({ responseLogprobs: true })
    expect(configOf({ logprobs: true, top_logprobs: 25 })).toEqual({
      responseLogprobs: true,
      logprobs: 20,
    })
    expect(configOf({ logprobs: false })).toBeUndefined()
  })

  test('sends penalties only to models that accept them', () => {
    expect(configOf({ presence_penalty: 1 }, at('gemini-2.5-flash'))).toBeUndefined()
    expect(
      configOf({ presence_penalty: 1 }, { ...VERTEX, upstreamModel: 'gemini-2.5-flash' }),
    ).toEqual({ presencePenalty: 1 })
  })

  test('sends image and speech options with their modalities', () => {
    expect(
      configOf({
        modalities: ['image', 'text'],
        image_config: { aspect_ratio: '16:9', image_size: '2K' },
      }),
    ).toEqual({
      responseModalities: ['IMAGE', 'TEXT'],
      imageConfig: { aspectRatio: '16:9', imageSize: '2K' },
    })
    expect(configOf({ modalities: ['audio'], audio: { voice: 'Kore', format: 'wav' } })).toEqual({
      responseModalities: ['AUDIO'],
      speechConfig: { voiceConfig: { prebuiltVoiceConfig: { voiceName: 'Kore' } } },
    })
    expect(configOf({ modalities: ['text'], audio: { voice: 'Kore' } })).toBeUndefined()
  })

  test('truncates a seed to 32 bits', () => {
    expect(configOf({ seed: 2 ** 32 + 5 })).toEqual({ seed: 5 })
  })

  test('sends a service tier in the body, on Vertex in a header', () => {
    expect(
      gemini.buildRequest(buildTextCall({ params: { service_tier: 'flex' } }), NEW).body
        .serviceTier,
    ).toBe('flex')
    expect(
      gemini.buildRequest(buildTextCall({ params: { service_tier: 'priority' } }), VERTEX),
    ).toMatchObject({
      headers: { 'x-vertex-ai-llm-shared-request-type': 'priority' },
    })
    expect(
      gemini.buildRequest(buildTextCall({ params: { service_tier: 'auto' } }), NEW).body,
    ).not.toHaveProperty('serviceTier')
  })
})

describe('trap 54: reasoning', () => {
  const thinking = (
    reasoning: TextCall['params']['reasoning'],
    model: string,
    max_tokens?: number,
  ) =>
    configOf(
      { ...(reasoning ? { reasoning } : {}), ...(max_tokens ? { max_tokens } : {}) },
      at(model),
    )?.thinkingConfig

  test('becomes a supported level for newer models', () => {
    expect(thinking({ effort: 'low' }, 'gemini-3-flash-preview')).toEqual({
      thinkingLevel: 'low',
      includeThoughts: true,
    })
    expect(thinking({ effort: 'minimal' }, 'gemini-3-pro-preview')).toEqual({
      thinkingLevel: 'low',
      includeThoughts: true,
    })
    expect(thinking({ effort: 'medium' }, 'gemini-3-pro-preview')).toEqual({
      thinkingLevel: 'high',
      includeThoughts: true,
    })
    expect(thinking({ effort: 'max' }, 'gemini-9-future')).toEqual({
      thinkingLevel: 'high',
      includeThoughts: true,
    })
    expect(thinking({ effort: 'none' }, 'gemini-3-flash-preview')).toEqual({
      thinkingLevel: 'minimal',
    })
    expect(thinking({ max_tokens: 1000 }, 'gemini-3.1-pro-preview', 10_000)).toEqual({
      thinkingLevel: 'low',
      includeThoughts: true,
    })
  })

  test('becomes a clamped number of tokens for older models', () => {
    expect(thinking({ max_tokens: 5_000 }, 'gemini-2.5-flash')).toEqual({
      thinkingBudget: 5_000,
      includeThoughts: true,
    })
    expect(thinking({ effort: 'high' }, 'gemini-2.5-flash', 10_000)).toEqual({
      thinkingBudget: 8_000,
      includeThoughts: true,
    })
    expect(thinking({ effort: 'xhigh' }, 'gemini-2.5-flash')).toEqual({
      thinkingBudget: 24_576,
      includeThoughts: true,
    })
    expect(thinking({ max_tokens: 5 }, 'gemini-2.5-flash-lite')).toEqual({
      thinkingBudget: 512,
      includeThoughts: true,
    })
    expect(thinking({ effort: 'none' }, 'gemini-2.5-flash')).toEqual({ thinkingBudget: 0 })
    expect(thinking({ enabled: false }, 'gemini-2.5-pro')).toEqual({ thinkingBudget: 128 })
  })

  test('leaves the depth to the model if only enabled', () => {
    for (const model of ['gemini-3-flash-preview', 'gemini-2.5-flash'])
      expect(thinking({ enabled: true }, model)).toEqual({ includeThoughts: true })
  })

  test('omits thoughts that the caller will not see', () => {
    expect(thinking({ effort: 'low', exclude: true }, 'gemini-3-flash-preview')).toEqual({
      thinkingLevel: 'low',
    })
  })

  test('is omitted for models without control, or without a request', () => {
    for (const model of ['gemini-2.0-flash', 'gemma-3-27b-it', 'gemini-2.5-flash-image'])
      expect(thinking({ effort: 'high' }, model)).toBeUndefined()
    expect(thinking(undefined, 'gemini-3-flash-preview')).toBeUndefined()
  })
})

describe('the conversation', () => {
  test('separates instructions, and alternates sides', () => {
    const messages: Message[] = [
      { role: 'system', blocks: [said('S')] },
      user(said('a')),
      { role: 'developer', blocks: [said('D')] },
      user(said('b')),
      assistant(said('c')),
      user(said('d')),
    ]
    expect(sent({ messages })).toEqual({
      systemInstruction: { parts: [{ text: 'S' }, { text: 'D' }] },
      contents: [
        { role: 'user', parts: [{ text: 'a' }, { text: 'b' }] },
        { role: 'model', parts: [{ text: 'c' }] },
        { role: 'user', parts: [{ text: 'd' }] },
      ],
    })
  })

  test('sends instructions as user content if they are alone or unsupported', () => {
    const system: Message = { role: 'system', blocks: [said('S')] }
    expect(sent({ messages: [system, user(said('a'))] }, at('gemma-3-27b-it'))).toEqual({
      contents: [{ role: 'user', parts: [{ text: 'S' }, { text: 'a' }] }],
    })
    expect(sent({ messages: [system] })).toEqual({
      contents: [{ role: 'user', parts: [{ text: 'S' }] }],
    })
  })

  test('ignores inherited property names as formats and extensions', () => {
    const blocks: Block[] = [
      { type: 'audio', data: 'UklGRg==', format: 'constructor' },
      { type: 'file', file: { filename: 'a.constructor', file_id: 'gs://bucket/a' } },
    ]
    expect(contentsOf([user(...blocks)])).toEqual([
      {
        role: 'user',
        parts: [
          { inlineData: { mimeType: 'audio/constructor', data: 'UklGRg==' } },
          { fileData: { mimeType: 'application/pdf', fileUri: 'gs://bucket/a' } },
        ],
      },
    ])
  })

  test('trap 13: sends media as inline data or by URL', () => {
    const blocks: Block[] = [
      { type: 'image', url: 'DATA:image/PNG;base64,iVBORw0KGgo=' },
      { type: 'audio', data: 'UklGRg==', format: 'WAV' },
      { type: 'audio', data: 'UklGRg==', format: 'pcm16' },
      {
        type: 'file',
        file: { filename: 'a.pdf', file_data: 'data:application/pdf;base64,JVBERi0=' },
      },
      {
        type: 'file',
        file: { filename: 'a.csv', file_data: 'data:application/octet-stream;base64,YSxi' },
      },
      {
        type: 'file',
        file: { file_id: 'https://generativelanguage.googleapis.com/v1beta/files/abc' },
      },
      { type: 'file', file: { file_data: 'gs://bucket/film.mp4' } },
      { type: 'video', url: 'https://www.youtube.com/watch?v=abc' },
      { type: 'video', url: 'https://x.example/a.webm?token=1' },
      { type: 'video', url: 'data:video/mp4;base64,AAAA' },
    ]
    const inline = (mimeType: string, data: string) => ({ inlineData: { mimeType, data } })
    const file = (mimeType: string, fileUri: string) => ({ fileData: { mimeType, fileUri } })
    expect(contentsOf([user(...blocks)])).toEqual([
      {
        role: 'user',
        parts: [
          inline('image/png', 'iVBORw0KGgo='),
          inline('audio/wav', 'UklGRg=='),
          inline('audio/pcm', 'UklGRg=='),
          inline('application/pdf', 'JVBERi0='),
          inline('text/csv', 'YSxi'),
          file('application/pdf', 'https://generativelanguage.googleapis.com/v1beta/files/abc'),
          file('video/mp4', 'gs://bucket/film.mp4'),
          file('video/mp4', 'https://www.youtube.com/watch?v=abc'),
          file('video/webm', 'https://x.example/a.webm?token=1'),
          inline('video/mp4', 'AAAA'),
        ],
      },
    ])
  })

  test('refuses native content in a result, and omits it from model messages', () => {
    const other: Block = {
      type: 'other',
      dialect: 'messages',
      value: { type: 'web_search_tool_result' },
    }
    const refusal = expect.objectContaining({ type: 'invalid_request' })
    expect(() => contentsOf([user(said('a')), assistant(called('1')), result('1', other)])).toThrow(
      refusal,
    )
    expect(contentsOf([user(said('a')), assistant(other, said('b'))])).toMatchObject([
      {},
      { role: 'model', parts: [{ text: 'b' }] },
    ])
  })

  test('refuses a file without data, and native content of other APIs', () => {
    const refusal = expect.objectContaining({ type: 'invalid_request' })
    expect(() => contentsOf([user({ type: 'file', file: { filename: 'a.pdf' } })])).toThrow(refusal)
    expect(() =>
      contentsOf([user({ type: 'other', dialect: 'responses', value: { type: 'computer' } })]),
    ).toThrow(refusal)
  })

  test('trap 20: ties results to calls by id and name', () => {
    const turns = [
      user(said('a')),
      assistant(called('1', '{"x":12345678901234567890}', 'a.b'), called('2', '', 'a.b')),
      result('2', said('{"n":2}')),
      result('1', said('plain')),
    ]
    expect(JSON.stringify(contentsOf(turns, OLD))).toBe(
      JSON.stringify([
        { role: 'user', parts: [{ text: 'a' }] },
        {
          role: 'model',
          parts: [
            { functionCall: { id: '1', name: 'a.b', args: { x: 0 } } },
            { functionCall: { id: '2', name: 'a.b', args: {} } },
          ],
        },
        {
          role: 'user',
          parts: [
            { functionResponse: { id: '1', name: 'a.b', response: { output: 'plain' } } },
            { functionResponse: { id: '2', name: 'a.b', response: { n: 2 } } },
          ],
        },
      ]).replace('{"x":0}', '{"x":12345678901234567890}'),
    )
  })

  test('omits ids on Vertex', () => {
    const text = JSON.stringify(
      contentsOf(
        [user(said('a')), assistant(called('the-id')), result('the-id', said('x'))],
        VERTEX,
      ),
    )
    expect(text).not.toContain('the-id')
  })

  test('traps 23 and 24: shows arguments that are no object', () => {
    const args = (input: string) =>
      JSON.stringify(contentsOf([user(said('a')), assistant(called('1', input))], OLD)).match(
        /"args":(\{.*?\})/,
      )?.[1]
    expect([args(''), args('[1]'), args('{"a":')]).toEqual([
      '{}',
      '{"arguments":"[1]"}',
      '{"arguments":"{\\"a\\":"}',
    ])
  })

  test('marks failed results, and sends results with references as text', () => {
    const response = (turn: Message) =>
      JSON.stringify(contentsOf([user(said('a')), assistant(called('1')), turn], OLD)).match(
        /"response":(\{.*?\})\}\}\]/,
      )?.[1]
    expect(response({ ...result('1', said('bad')), is_error: true })).toBe('{"error":"bad"}')
    expect(response(result('1', said('{"$ref":"x"}')))).toBe('{"output":"{\\"$ref\\":\\"x\\"}"}')
  })

  test('trap 16: sends images of a tool within its result, or after all results', () => {
    const picture: Block = { type: 'image', url: 'data:image/png;base64,AAAA' }
    const turns = [
      user(said('a')),
      assistant(called('1'), called('2')),
      result('1', said('x'), picture),
      result('2', said('y')),
    ]
    const inlineData = { mimeType: 'image/png', data: 'AAAA' }
    expect((contentsOf(turns) as unknown[])[2]).toEqual({
      role: 'user',
      parts: [
        {
          functionResponse: {
            id: '1',
            name: 'f',
            response: { output: 'x' },
            parts: [{ inlineData }],
          },
        },
        { functionResponse: { id: '2', name: 'f', response: { output: 'y' } } },
      ],
    })
    expect(
      (contentsOf(turns, OLD) as { parts: object[] }[])[2]?.parts.map(part => Object.keys(part)[0]),
    ).toEqual(['functionResponse', 'functionResponse', 'inlineData'])
  })
})

describe('signatures', () => {
  const FORMAT = 'google-gemini-v1'
  const reasoning = (...details: object[]): Block => ({
    type: 'reasoning',
    text: null,
    details: details as never,
  })
  const modelParts = (turn: Message, endpoint = NEW) =>
    (contentsOf([user(said('a')), turn], endpoint) as { parts: Record<string, unknown>[] }[])[1]
      ?.parts

  test('trap 33: returns a signature on its call', () => {
    const details = reasoning(
      { type: 'reasoning.text', text: 'Hm', format: FORMAT, index: 0 },
      { type: 'reasoning.encrypted', data: 'S2', id: '2', format: FORMAT, index: 1 },
      { type: 'reasoning.encrypted', data: 'S1', id: '1', format: FORMAT, index: 2 },
    )
    expect(modelParts(assistant(details, called('1'), called('2')))).toEqual([
      { functionCall: { id: '1', name: 'f', args: {} }, thoughtSignature: 'S1' },
      { functionCall: { id: '2', name: 'f', args: {} }, thoughtSignature: 'S2' },
    ])
  })

  test('trap 33: replaces a lost signature on the first call of each message', () => {
    const parts = modelParts(assistant(called('1'), called('2')))
    expect(parts?.map(part => part.thoughtSignature)).toEqual([
      'skip_thought_signature_validator',
      undefined,
    ])
    expect(modelParts(assistant(called('1')), OLD)?.[0]).not.toHaveProperty('thoughtSignature')
  })

  test('trap 34: returns the signatures of texts and thoughts on their parts', () => {
    const details = reasoning(
      { type: 'reasoning.text', text: 'Hm', signature: 'T', format: FORMAT, index: 0 },
      { type: 'reasoning.encrypted', data: 'A', format: FORMAT, index: 1 },
      { type: 'reasoning.encrypted', data: 'B', format: FORMAT, index: 2 },
    )
    expect(modelParts(assistant(details, said('one'), said('two')))).toEqual([
      { text: 'Hm', thought: true, thoughtSignature: 'T' },
      { text: '', thoughtSignature: 'A' },
      { text: 'one' },
      { text: 'two', thoughtSignature: 'B' },
    ])
  })

  test('trap 34: returns the signature of an image on that image only', () => {
    const details = reasoning({
      type: 'reasoning.encrypted',
      data: 'P',
      id: 'media_1',
      format: FORMAT,
      index: 0,
    })
    const picture = (data: string): Block => ({
      type: 'image',
      url: `data:image/png;base64,${data}`,
    })
    const inlineData = (data: string) => ({ inlineData: { mimeType: 'image/png', data } })
    expect(modelParts(assistant(details, said('a'), picture('AAAA'), picture('BBBB')))).toEqual([
      { text: 'a' },
      inlineData('AAAA'),
      { ...inlineData('BBBB'), thoughtSignature: 'P' },
    ])
    expect(modelParts(assistant(details, said('a')))).toEqual([{ text: 'a' }])
  })

  test('trap 96: omits unsigned thinking and other providers’', () => {
    const details = reasoning(
      {
        type: 'reasoning.text',
        text: 'Hm',
        signature: 'X',
        format: 'anthropic-claude-v1',
        index: 0,
      },
      { type: 'reasoning.encrypted', data: 'Y', id: '1', format: 'openai-responses-v1' },
    )
    expect(modelParts(assistant(details, said('one')))).toEqual([{ text: 'one' }])
  })

  test('returns tools that Google ran itself unchanged', () => {
    const run = {
      type: 'reasoning.server_tool_call',
      tool_name: 'code_execution',
      tool_call_id: 's',
      arguments: '{"language":"PYTHON","code":"1"}',
      result: '{"outcome":"OUTCOME_OK","output":"1"}',
      format: FORMAT,
      index: 1,
    }
    const search = {
      type: 'reasoning.server_tool_call',
      tool_name: 'GOOGLE_SEARCH_WEB',
      tool_call_id: 'g',
      arguments: '{"queries":["x"]}',
      result: '{"found":1}',
      format: FORMAT,
      index: 2,
    }
    expect(
      modelParts(
        assistant(
          reasoning(
            { type: 'reasoning.encrypted', data: 'S', id: 's', format: FORMAT, index: 0 },
            run,
            search,
          ),
          said('1'),
        ),
      ),
    ).toEqual([
      { executableCode: { language: 'PYTHON', code: '1' }, thoughtSignature: 'S' },
      { codeExecutionResult: { outcome: 'OUTCOME_OK', output: '1' } },
      { toolCall: { toolType: 'GOOGLE_SEARCH_WEB', args: { queries: ['x'] }, id: 'g' } },
      { toolResponse: { toolType: 'GOOGLE_SEARCH_WEB', response: { found: 1 }, id: 'g' } },
      { text: '1' },
    ])
  })

  test('a returned answer equals the original', () => {
    const parts = [
      { text: 'Hm', thought: true, thoughtSignature: 'T' },
      { text: 'One.', thoughtSignature: 'A' },
      { functionCall: { id: '1', name: 'f', args: { x: 1 } }, thoughtSignature: 'S' },
      { functionCall: { id: '2', name: 'f', args: {} } },
    ]
    const { details, text, calls } = collectParts(
      gemini.parseAnswer(
        { candidates: [{ content: { parts }, finishReason: 'STOP' }] },
        buildTextCall(),
        NEW,
      ),
    )
    const turn = assistant(
      reasoning(...details),
      said(text),
      ...calls.map(({ id, name, input }) => called(id, input, name)),
    )
    expect(modelParts(turn)).toEqual(parts)
  })
})

describe('tools', () => {
  const schema = {
    type: 'object',
    properties: { a: { type: ['string', 'null'] } },
    additionalProperties: false,
  }

  test('trap 31: puts all functions into one entry', () => {
    const tools = [{ ...tool('a', schema), description: 'A', strict: true }, tool('b')]
    expect(sent({ tools }, OLD)).toMatchObject({
      tools: [
        {
          functionDeclarations: [
            {
              name: 'a',
              description: 'A',
              parameters: { type: 'object', properties: { a: { type: 'string', nullable: true } } },
            },
            { name: 'b', description: '' },
          ],
        },
      ],
    })
    expect(sent({ tools }, OLD)).not.toHaveProperty('toolConfig')
  })

  test('sends JSON Schema to models that accept it', () => {
    expect(sent({ tools: [tool('a', schema)] })).toMatchObject({
      tools: [{ functionDeclarations: [{ name: 'a', parametersJsonSchema: schema }] }],
    })
  })

  test('trap 42: omits the schema of a function without parameters', () => {
    const declared = (parameters: unknown, endpoint = OLD) =>
      (
        sent({ tools: [tool('a', parameters)] }, endpoint).tools as {
          functionDeclarations: object[]
        }[]
      )[0]?.functionDeclarations[0]
    for (const none of [
      undefined,
      null,
      {},
      { type: 'object' },
      { type: 'object', properties: {} },
      { additionalProperties: false },
    ])
      expect(declared(none)).toEqual({ name: 'a', description: '' })
    expect(declared({ properties: { x: { type: 'string' } } }, NEW)).toMatchObject({
      parametersJsonSchema: { type: 'object', properties: { x: { type: 'string' } } },
    })
  })

  test.each([
    ['none', { mode: 'NONE' }],
    ['auto', { mode: 'AUTO' }],
    ['required', { mode: 'ANY' }],
    [
      { type: 'function', function: { name: '2 b' } },
      { mode: 'ANY', allowedFunctionNames: ['_2_b'] },
    ],
  ] as const)('the choice %j is %j', (tool_choice, functionCallingConfig) => {
    expect(sent({ tools: [tool('2 b')], params: { tool_choice } }).toolConfig).toEqual({
      functionCallingConfig,
    })
    expect(sent({ params: { tool_choice } })).not.toHaveProperty('toolConfig')
  })

  test('trap 22: fits names in tools and history', () => {
    const long = 'x'.repeat(100)
    const body = sent({
      tools: [tool('1/a'), tool(long)],
      messages: [user(said('a')), assistant(called('1', '{}', '1/a')), result('1', said('x'))],
    })
    const names = JSON.stringify(body).match(/(?<="name":")[^"]*/g)
    expect(names?.slice(0, 2)).toEqual(['_1_a', '_1_a'])
    for (const name of names ?? []) expect(name).toMatch(/^[A-Za-z_][A-Za-z0-9_.-]{0,63}$/)
  })

  test('trap 35: refuses other APIs’ own tools by name', () => {
    const other = {
      type: 'other' as const,
      dialect: 'responses' as const,
      value: { type: 'computer_use' },
    }
    expect(() => sent({ tools: [tool('a'), other] })).toThrow(
      expect.objectContaining({ type: 'invalid_request', metadata: { field: 'tools.1' } }),
    )
  })

  test('trap 39: refuses a recursive schema by name if it must be reduced', () => {
    const tree = { type: 'object', properties: { child: { $ref: '#' } } }
    expect(() => sent({ tools: [tool('a'), tool('b', tree)] }, OLD)).toThrow(
      expect.objectContaining({ metadata: { field: 'tools.1.function.parameters' } }),
    )
    expect(sent({ tools: [tool('b', tree)] })).toMatchObject({
      tools: [{ functionDeclarations: [{ parametersJsonSchema: tree }] }],
    })
  })

  test('maps web search to Google’s own, unless there are functions', () => {
    expect(sent({ params: { web_search_options: {} } }).tools).toEqual([{ googleSearch: {} }])
    expect(sent({ params: { web_search_options: {} } }, at('gemma-3-27b-it'))).not.toHaveProperty(
      'tools',
    )
    expect(sent({ params: { web_search_options: {} }, tools: [tool('f')] }).tools).toEqual([
      { functionDeclarations: [{ name: 'f', description: '' }] },
    ])
  })
})

describe('the answer format', () => {
  const schema = { type: 'object', properties: { a: { const: 'x' } } }
  const response_format = { type: 'json_schema' as const, json_schema: { name: 'n', schema } }
  const shape = (call: Partial<TextCall>, endpoint = NEW) => {
    const { generationConfig, tools, toolConfig } = sent(call, endpoint)
    return { generationConfig, tools, toolConfig }
  }

  test('trap 44: is native, as JSON Schema or in the reduced form', () => {
    expect(shape({ params: { response_format } })).toEqual({
      generationConfig: {
        responseMimeType: 'application/json',
        responseJsonSchema: { type: 'object', properties: { a: { enum: ['x'] } } },
      },
      tools: undefined,
      toolConfig: undefined,
    })
    expect(shape({ params: { response_format } }, OLD).generationConfig).toEqual({
      responseMimeType: 'application/json',
      responseSchema: { type: 'object', properties: { a: { type: 'string', enum: ['x'] } } },
    })
    expect(
      shape({ params: { response_format: { type: 'json_object' } } }, OLD).generationConfig,
    ).toEqual({
      responseMimeType: 'application/json',
    })
    expect(
      shape({ params: { response_format: { type: 'text' } } }).generationConfig,
    ).toBeUndefined()
  })

  test('is native beside functions only if the model supports both', () => {
    const call = { params: { response_format }, tools: [tool('f')] }
    expect(shape(call)).toMatchObject({
      generationConfig: { responseMimeType: 'application/json' },
      tools: [{ functionDeclarations: [{ name: 'f' }] }],
      toolConfig: undefined,
    })
    expect(shape(call, at('gemini-2.5-pro'))).toMatchObject({
      generationConfig: undefined,
      tools: [{ functionDeclarations: [{ name: 'f' }, { name: 'json' }] }],
      toolConfig: { functionCallingConfig: { mode: 'ANY' } },
    })
  })

  test('is the only function allowed if the client allows none of its own', () => {
    expect(
      shape({ params: { response_format, tool_choice: 'none' }, tools: [tool('json')] }, OLD),
    ).toMatchObject({
      tools: [{ functionDeclarations: [{ name: 'json' }, { name: 'json_answer' }] }],
      toolConfig: { functionCallingConfig: { mode: 'ANY', allowedFunctionNames: ['json_answer'] } },
    })
  })

  test('is omitted beside a forced function', () => {
    const tool_choice = { type: 'function', function: { name: 'f' } }
    expect(shape({ params: { response_format, tool_choice }, tools: [tool('f')] })).toMatchObject({
      generationConfig: undefined,
      toolConfig: { functionCallingConfig: { mode: 'ANY', allowedFunctionNames: ['f'] } },
    })
    expect(
      shape({ params: { response_format: { type: 'json_object' } }, tools: [tool('f')] }, OLD)
        .generationConfig,
    ).toBeUndefined()
  })

  test('refuses an invalid schema by name', () => {
    const bad = {
      type: 'json_schema' as const,
      json_schema: { name: 'n', schema: { $ref: '#/gone' } },
    }
    expect(() => sent({ params: { response_format: bad } }, OLD)).toThrow(
      expect.objectContaining({ metadata: { field: 'response_format.json_schema.schema' } }),
    )
  })
})
