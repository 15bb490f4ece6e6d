import { beforeAll, describe, expect, test } from 'bun:test'
import type { Gateway } from '../../../../src/app/gateway.ts'
import { type Json, readObject } from '../../../../src/base/json.ts'
import { NO_QUIRKS, type Quirks } from '../../../../src/config/quirks.ts'
import { text } from '../../../../src/engine/kinds/text.ts'
import type { TextCall } from '../../../../src/language/call.ts'
import type { TextDialect } from '../../../../src/language/dialect.ts'
import { getOperator } from '../../../../src/resources/actor.ts'
import type { Endpoint } from '../../../../src/resources/models/catalog.ts'
import { PROVIDERS } from '../../../../src/resources/providers.data.ts'
import { toChatCall } from '../../../../src/translation/dialects/chat/request.ts'
import { toGeminiCall } from '../../../../src/translation/dialects/gemini/request.ts'
import { toMessagesCall } from '../../../../src/translation/dialects/messages/request.ts'
import { toResponsesCall } from '../../../../src/translation/dialects/responses/request.ts'
import { protocols } from '../../../../src/translation/protocols/registry.ts'
import { buildEndpoint, buildProvider, buildTextCall } from '../../../support/call.ts'
import { testGateway } from '../../../support/gateway.ts'

const { understanding } = text

/*
 * Rule 5 of the specification: a parameter either changes what the provider gets, or it is left out
 * and named in the answer. Every parameter of every door is tried at every kind of endpoint, alone
 * and beside all others.
 */

let gateway: Gateway
beforeAll(async () => {
  gateway = await testGateway()
})

const SCHEMA = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] }
const HI = [{ role: 'user', content: 'Say it in JSON' }]

/** A loop of tools whose thoughts did not come back: some models cannot think on in it. */
const LOOP = [
  ...HI,
  {
    role: 'assistant',
    content: null,
    tool_calls: [{ id: 'c1', type: 'function', function: { name: 'look', arguments: '{}' } }],
  },
  { role: 'tool', tool_call_id: 'c1', content: 'Paris' },
]

/** A parameter of a door. */
interface Field {
  /** Where it stands in the body. */
  path: string
  value: unknown
  /** What it needs beside it. */
  beside?: Json
  /** Its name in the answer, where that is not its path. */
  name?: string
  /** Whether another parameter says the same, so that one of both has no effect. */
  isAlone?: true
}

interface Door {
  dialect: TextDialect
  base: Json
  fields: Field[]
  toCall: typeof toChatCall
}

const chatTools = {
  tools: [{ type: 'function', function: { name: 'look', parameters: SCHEMA } }],
}
const CHAT: Field[] = [
  { path: 'temperature', value: 0.5 },
  { path: 'top_p', value: 0.5 },
  { path: 'top_k', value: 5 },
  { path: 'min_p', value: 0.1 },
  { path: 'top_a', value: 0.1 },
  { path: 'frequency_penalty', value: 0.5 },
  { path: 'presence_penalty', value: 0.5 },
  { path: 'repetition_penalty', value: 1.1 },
  { path: 'max_tokens', value: 4_000 },
  { path: 'seed', value: 7 },
  { path: 'stop', value: ['END'] },
  { path: 'logit_bias', value: { 5: 1 } },
  { path: 'logprobs', value: true, isAlone: true },
  { path: 'top_logprobs', value: 3, beside: { logprobs: true } },
  { path: 'prediction', value: { type: 'content', content: 'It' } },
  {
    path: 'response_format',
    value: { type: 'json_schema', json_schema: { name: 'city', schema: SCHEMA } },
  },
  { path: 'tool_choice', value: 'required', beside: chatTools },
  { path: 'parallel_tool_calls', value: false, beside: chatTools },
  { path: 'reasoning', value: { effort: 'high' } },
  { path: 'verbosity', value: 'low' },
  { path: 'modalities', value: ['image', 'text'] },
  { path: 'audio', value: { voice: 'alloy', format: 'wav' }, beside: { modalities: ['audio'] } },
  { path: 'image_config', value: { aspect_ratio: '1:1' } },
  { path: 'service_tier', value: 'flex' },
  { path: 'web_search_options', value: { search_context_size: 'low' } },
  { path: 'cache_control', value: { type: 'ephemeral' } },
  { path: 'prompt_cache_key', value: 'k' },
  { path: 'prompt_cache_options', value: { mode: 'explicit' } },
  { path: 'prompt_cache_retention', value: '24h' },
  { path: 'n', value: 2 },
  { path: 'best_of', value: 2 },
  { path: 'echo', value: true },
  { path: 'suffix', value: 'end' },
  { path: 'store', value: true },
  { path: 'x_search_filter', value: { from_date: '2026-01-01' } },
  { path: 'structured_outputs', value: true },
  { path: 'max_tool_calls', value: 3 },
  { path: 'safety_identifier', value: 'u' },
  { path: 'metadata', value: { a: 'b' } },
  { path: 'user', value: 'u' },
  { path: 'frobnicate', value: 1 },
]

const messagesTools = { tools: [{ name: 'look', input_schema: SCHEMA }] }
const MESSAGES: Field[] = [
  { path: 'max_tokens', value: 4_000 },
  { path: 'temperature', value: 0.5 },
  { path: 'top_p', value: 0.5 },
  { path: 'top_k', value: 5 },
  { path: 'stop_sequences', value: ['END'] },
  { path: 'tool_choice', value: { type: 'any' }, beside: messagesTools },
  {
    path: 'tool_choice.disable_parallel_tool_use',
    value: true,
    beside: { ...messagesTools, tool_choice: { type: 'auto' } },
  },
  { path: 'thinking', value: { type: 'enabled', budget_tokens: 2_000 } },
  { path: 'output_config.effort', value: 'low' },
  { path: 'output_config.format', value: { type: 'json_schema', schema: SCHEMA } },
  { path: 'output_config.task_budget', value: { type: 'tokens', total: 20_000 } },
  { path: 'service_tier', value: 'flex' },
  { path: 'speed', value: 'fast', isAlone: true },
  { path: 'cache_control', value: { type: 'ephemeral' } },
  { path: 'context_management', value: { edits: [{ type: 'clear_tool_uses_20250919' }] } },
  { path: 'mcp_servers', value: [{ type: 'url', url: 'https://a.example', name: 'a' }] },
  { path: 'container', value: 'c' },
  { path: 'inference_geo', value: 'us' },
  { path: 'metadata', value: { user_id: 'u' } },
  { path: 'frobnicate', value: 1 },
]

const responsesTools = { tools: [{ type: 'function', name: 'look', parameters: SCHEMA }] }
const RESPONSES: Field[] = [
  { path: 'temperature', value: 0.5 },
  { path: 'top_p', value: 0.5 },
  { path: 'top_k', value: 5 },
  { path: 'frequency_penalty', value: 0.5 },
  { path: 'presence_penalty', value: 0.5 },
  { path: 'max_output_tokens', value: 4_000 },
  { path: 'top_logprobs', value: 3 },
  { path: 'include', value: ['web_search_call.results'] },
  { path: 'text.format', value: { type: 'json_schema', name: 'city', schema: SCHEMA } },
  { path: 'text.verbosity', value: 'low' },
  { path: 'reasoning.effort', value: 'high', name: 'reasoning' },
  { path: 'reasoning.context', value: 'all_turns' },
  { path: 'parallel_tool_calls', value: false, beside: responsesTools },
  { path: 'tool_choice', value: 'required', beside: responsesTools },
  { path: 'modalities', value: ['image', 'text'] },
  { path: 'image_config', value: { aspect_ratio: '1:1' } },
  { path: 'service_tier', value: 'flex' },
  { path: 'truncation', value: 'auto' },
  { path: 'prompt', value: { id: 'p', variables: { city: 'Paris' } } },
  { path: 'cache_control', value: { type: 'ephemeral' } },
  { path: 'prompt_cache_key', value: 'k' },
  { path: 'prompt_cache_options', value: { mode: 'explicit' } },
  { path: 'prompt_cache_retention', value: '24h' },
  { path: 'max_tool_calls', value: 3 },
  { path: 'metadata', value: { a: 'b' } },
  { path: 'safety_identifier', value: 'u' },
  { path: 'frobnicate', value: 1 },
]

const geminiTools = { tools: [{ functionDeclarations: [{ name: 'look', parameters: SCHEMA }] }] }
const config = (name: string, value: unknown): Field => ({
  path: `generationConfig.${name}`,
  value,
})
const GEMINI: Field[] = [
  config('temperature', 0.5),
  config('topP', 0.5),
  config('topK', 5),
  config('maxOutputTokens', 4_000),
  config('candidateCount', 2),
  config('stopSequences', ['END']),
  config('presencePenalty', 0.5),
  config('frequencyPenalty', 0.5),
  config('seed', 7),
  { ...config('responseMimeType', 'application/json'), isAlone: true },
  config('responseSchema', SCHEMA),
  config('responseModalities', ['IMAGE']),
  config('responseLogprobs', true),
  { ...config('logprobs', 3), beside: { generationConfig: { responseLogprobs: true } } },
  config('thinkingConfig', { thinkingBudget: 2_000, includeThoughts: true }),
  config('imageConfig', { aspectRatio: '1:1' }),
  config('speechConfig', { voiceConfig: { prebuiltVoiceConfig: { voiceName: 'Kore' } } }),
  config('mediaResolution', 'MEDIA_RESOLUTION_LOW'),
  { path: 'toolConfig.functionCallingConfig', value: { mode: 'ANY' }, beside: geminiTools },
  {
    path: 'toolConfig.retrievalConfig',
    value: { languageCode: 'de' },
    beside: geminiTools,
    name: 'toolConfig',
  },
  { path: 'tools', value: [{ googleSearch: {} }], name: 'googleSearch', isAlone: true },
  { path: 'safetySettings', value: [{ category: 'x', threshold: 'BLOCK_NONE' }] },
  { path: 'cachedContent', value: 'cachedContents/1' },
  { path: 'labels', value: { a: 'b' } },
]

const DOORS: Door[] = [
  { dialect: 'chat', base: { messages: HI }, fields: CHAT, toCall: toChatCall },
  { dialect: 'chat', base: { messages: LOOP }, fields: CHAT, toCall: toChatCall },
  {
    dialect: 'messages',
    base: { messages: HI },
    fields: MESSAGES,
    toCall: toMessagesCall as unknown as typeof toChatCall,
  },
  {
    dialect: 'responses',
    base: { input: 'Say it in JSON' },
    fields: RESPONSES,
    toCall: toResponsesCall as unknown as typeof toChatCall,
  },
  {
    dialect: 'gemini',
    base: { contents: [{ role: 'user', parts: [{ text: 'Say it in JSON' }] }], stream: false },
    fields: GEMINI,
    toCall: toGeminiCall as unknown as typeof toChatCall,
  },
]

/** Models of each protocol that differ in what they take. */
const MODELS: Record<string, string[]> = {
  'openai-chat': ['up-small'],
  sandbox: ['echo'],
  'cohere-chat': ['command-a-03-2025', 'command-a-reasoning-08-2025'],
  gemini: ['gemini-2.0-flash', 'gemini-2.5-pro', 'gemini-3-flash-preview', 'gemma-3-27b'],
  'anthropic-messages': [
    ...['claude-3-5-haiku', 'claude-sonnet-4-20250514', 'claude-sonnet-4-5', 'claude-opus-4-5'],
    ...['claude-sonnet-4-6', 'claude-opus-4-7', 'claude-fable-5', 'claude-next', 'kimi-k2'],
  ],
  'anthropic-vertex': ['claude-3-5-haiku', 'claude-sonnet-4-5', 'claude-next'],
  'openai-responses': [
    ...['gpt-4o', 'gpt-5', 'gpt-5.1', 'gpt-5-pro', 'gpt-next', 'grok-4', 'grok-3-mini', 'llama'],
  ],
  'bedrock-converse': [
    ...['anthropic.claude-3-haiku', 'anthropic.claude-sonnet-4-5', 'anthropic.claude-opus-4-7'],
    ...['anthropic.claude-next', 'amazon.nova-pro-v1:0', 'amazon.nova-2-lite-v1:0', 'other.model'],
    ...['openai.gpt-oss-120b', 'openai.gpt-5', 'mistral.mistral-7b', 'meta.llama3', 'qwen.qwen3'],
  ],
}

/** Builds an endpoint of each model of each protocol that a known provider speaks. */
function listEndpoints(): [name: string, endpoint: Endpoint][] {
  const speakers = Object.entries(PROVIDERS).flatMap(([slug, row]) => {
    const {
      protocol,
      base_url,
      quirks = {},
    } = row as {
      protocol: string
      base_url: string | null
      quirks?: Partial<Quirks>
    }
    const also = 'also' in row ? row.also : []
    const all = [protocol, ...also.map(one => (typeof one === 'string' ? one : one.protocol))]
    return [...new Set(all)].map(one => ({ slug, protocol: one, base_url, quirks }))
  })
  const others = [
    { slug: 'local', protocol: 'openai-chat', quirks: { reasoning: 'none' as const } },
    { slug: 'local', protocol: 'anthropic-messages', quirks: {} },
    { slug: 'local', protocol: 'openai-responses', quirks: {} },
    { slug: 'local', protocol: 'sandbox', quirks: {} },
  ].map(speaker => ({ ...speaker, base_url: 'http://127.0.0.1:1/v1' }))
  const vertex = 'https://x.example/v1/projects/p/locations/l/publishers/google'
  const hosts = [...speakers, ...others].map(({ base_url, ...rest }) => ({
    ...rest,
    base_url: base_url ?? (rest.slug.includes('vertex') ? vertex : 'https://x.example/v1'),
  }))
  return distinguish(hosts).flatMap(({ slug, protocol, base_url, quirks }) =>
    (MODELS[protocol] ?? []).map((upstreamModel): [string, Endpoint] => [
      `${protocol} of ${slug}, ${upstreamModel},`,
      buildEndpoint({
        protocol,
        upstreamModel,
        model: `acme/${upstreamModel}`,
        provider: buildProvider({ slug, protocol, base_url, quirks: { ...NO_QUIRKS, ...quirks } }),
      }),
    ]),
  )
}

interface Host {
  slug: string
  protocol: string
  base_url: string
  quirks: Partial<Quirks>
}

/** Those that code looks at by their name. */
const OWN = ['openai', 'azure', 'xai', 'openrouter', 'anthropic', 'google', 'google-vertex']

/** Returns the first of those that take the same parameters. */
function distinguish(hosts: Host[]): Host[] {
  const byTaste = new Map<string, Host>()
  for (const host of hosts) {
    const { slug, protocol, quirks } = host
    const { renamed, dropped, reasoning, output_bound, cache_markers, json_schema } = quirks
    const taste = { renamed, dropped, reasoning, output_bound, cache_markers, json_schema }
    const key = JSON.stringify([protocol, taste, OWN.includes(slug) && slug])
    if (!byTaste.has(key)) byTaste.set(key, host)
  }
  return [...byTaste.values()]
}

/** What is accepted to be neither sent nor named, by its door and its name. */
const UNNAMED: [place: RegExp, why: string][] = [
  [/(user|safety_identifier|metadata)$/, 'names the caller, and the gateway records it'],
  [/ max_tool_calls$/, 'bounds the tools that the gateway runs'],
  [/ prompt_cache_key$/, 'keeps a conversation at its endpoint, which caches it'],
  [/ structured_outputs$/, 'asks for what the format of the answer asks for'],
  [
    /^(anthropic|bedrock|gemini).* together (tool_choice|toolConfig\.functionCallingConfig)$/,
    'the format is a tool that must be called, so that some tool is called anyway',
  ],
  [
    /^anthropic.* together (parallel_tool_calls|tool_choice\.disable_parallel_tool_use)$/,
    'the format is a tool that is called alone, so that calls are not parallel anyway',
  ],
]

/** What is accepted to change the body although it is named. */
const NAMED: [place: RegExp, why: string][] = [
  [
    /^anthropic.* (tool_choice|toolConfig\.functionCallingConfig)$/,
    'a model that cannot be forced is told that it may choose',
  ],
  [/^cohere.* responses .*top_logprobs$/, 'the likelihoods come, but no alternatives'],
  [/ messages together thinking$/, 'the effort is that of the answer beside a budget of thoughts'],
]

/** The exceptions that some place has needed. */
const used = new Set<string>()

function isAccepted(place: string, list: [RegExp, string][]): boolean {
  const [, why] = list.find(([pattern]) => pattern.test(place)) ?? []
  if (why !== undefined) used.add(why)
  return why !== undefined
}

type ListIgnored = typeof understanding.listIgnored

/** Lists the fields that are lost without a word, and those that are named in vain. */
function findProblems(
  endpoints: [string, Endpoint][],
  listIgnored: ListIgnored = understanding.listIgnored,
): string[] {
  const problems: string[] = []
  for (const door of DOORS)
    for (const field of door.fields)
      for (const way of ['alone', 'together'] as const) {
        if (way === 'together' && field.isAlone) continue
        const [call, without] = buildBodies(door, field, way).map(body => understand(door, body))
        for (const [name, endpoint] of endpoints) {
          const isHeard = !Bun.deepEquals(send(call, endpoint), send(without, endpoint))
          const isNamed = listIgnored(call as TextCall, endpoint).includes(field.name ?? field.path)
          const place = `${name} ${door.dialect} ${way} ${field.path}`
          if (isHeard === isNamed && !isAccepted(place, isHeard ? NAMED : UNNAMED))
            problems.push(`${place}: ${isHeard ? 'named in vain' : 'lost'}`)
        }
      }
  return problems
}

function understand(door: Door, body: Json): TextCall {
  const { id, origin } = buildTextCall()
  const context = { id, origin, session_id: null, betas: [] }
  const given = { model: 'acme/small', stream: false, ...structuredClone(body) }
  return door.toCall(gateway, getOperator(gateway), given as never, context as never)
}

function send(call: TextCall | undefined, endpoint: Endpoint): unknown {
  if (!call) return undefined
  const fitted = understanding.removeNames(understanding.fitToEndpoint(call, endpoint))
  return protocols.text[endpoint.protocol]?.buildRequest(fitted, endpoint)
}

/** Builds a body with the field, alone or beside all others, and the same without it. */
function buildBodies({ base, fields }: Door, field: Field, way: 'alone' | 'together'): Json[] {
  const others =
    way === 'alone' ? [] : fields.filter(({ path, isAlone }) => path !== field.path && !isAlone)
  const without: Json = structuredClone(base)
  for (const { beside = {} } of [field, ...others]) Object.assign(without, structuredClone(beside))
  for (const { path, value } of others) setPath(without, path, value)
  const given = structuredClone(without)
  setPath(given, field.path, field.value)
  removePath(without, field.path)
  return [given, without]
}

function setPath(body: Json, path: string, value: unknown): void {
  const [name = '', member] = path.split('.')
  if (member === undefined) body[name] = value
  else body[name] = { ...(body[name] as Json), [member]: value }
}

function removePath(body: Json, path: string): void {
  const [name = '', member = ''] = path.split('.')
  const { [member]: _, ...rest } = readObject(body, name)
  if (path.includes('.') && Object.keys(rest).length > 0) body[name] = rest
  else delete body[name]
}

describe('every parameter of every door', () => {
  test('reaches the provider or is named, at every kind of endpoint', () => {
    const endpoints = listEndpoints()
    const spoken = new Set(endpoints.map(([, { protocol }]) => protocol))
    expect([...spoken].sort()).toEqual(Object.keys(protocols.text).sort())
    expect(findProblems(endpoints)).toEqual([])
    expect([...used].sort()).toEqual([...UNNAMED, ...NAMED].map(([, why]) => why).sort())
  })

  test('is found if it is lost, or named in vain', () => {
    const endpoints = listEndpoints().filter(([name]) => /^cohere|gpt-4o/.test(name))
    const { listIgnored } = understanding
    const silent: ListIgnored = (...given) => listIgnored(...given).filter(name => name !== 'n')
    expect(findProblems(endpoints, silent).length).toBeGreaterThan(0)
    const loud: ListIgnored = (...given) => [...listIgnored(...given), 'temperature']
    expect(findProblems(endpoints, loud).length).toBeGreaterThan(0)
  })
})

const COHERE = buildEndpoint({ protocol: 'cohere-chat', upstreamModel: 'command-r' })
const CLAUDE = buildEndpoint({ protocol: 'anthropic-messages', upstreamModel: 'claude-sonnet-4-5' })
const ignoredAt = (endpoint: Endpoint, dialect: TextDialect, body: Json): string[] => {
  const door = DOORS.find(one => one.dialect === dialect) as Door
  return understanding.listIgnored(understand(door, { ...door.base, ...body }), endpoint)
}

test.each<[Endpoint, TextDialect, Json, string[]]>([
  [COHERE, 'chat', { n: 2, seed: 7, logit_bias: { 5: 1 } }, ['logit_bias', 'n']],
  [CLAUDE, 'chat', { temperature: 0.5, top_p: 0.5 }, ['top_p']],
  [CLAUDE, 'chat', { top_p: 0.5 }, []],
  [CLAUDE, 'chat', { temperature: 0.5, reasoning: { effort: 'high' } }, ['temperature']],
  [
    CLAUDE,
    'chat',
    { temperature: 0.5, reasoning: { effort: 'high' }, messages: LOOP, ...chatTools },
    ['reasoning'],
  ],
  [COHERE, 'messages', { thinking: { type: 'enabled', budget_tokens: 2_000 } }, ['thinking']],
  [COHERE, 'responses', { text: { verbosity: 'low' } }, ['text.verbosity']],
  [
    COHERE,
    'gemini',
    { generationConfig: { candidateCount: 2, mediaResolution: 'LOW' } },
    ['generationConfig.mediaResolution', 'generationConfig.candidateCount'],
  ],
])('a client is told what was left out as it wrote it (%#)', (endpoint, dialect, body, names) => {
  expect(ignoredAt(endpoint, dialect, body)).toEqual(names)
})

test.each<[TextDialect, Json]>([
  ['chat', { n: 1, min_p: 0, top_a: 0, repetition_penalty: 1, top_logprobs: 0, store: false }],
  ['chat', { parallel_tool_calls: false, tool_choice: 'auto', logit_bias: {}, verbosity: null }],
  ['chat', { parallel_tool_calls: true, ...chatTools }],
  ['chat', { modalities: ['text'], service_tier: 'auto', reasoning: { enabled: false } }],
  ['chat', { reasoning: { exclude: true } }],
  [
    'messages',
    { speed: 'standard', service_tier: 'standard_only', thinking: { type: 'disabled' } },
  ],
  ['responses', { include: ['reasoning.encrypted_content'], truncation: 'disabled', store: false }],
  ['gemini', { generationConfig: { candidateCount: 1, responseModalities: ['TEXT'] } }],
])('what asks for nothing is not named: %s %j', (dialect, body) => {
  expect(ignoredAt(COHERE, dialect, body)).toEqual([])
})

test('a tier that no endpoint here has is named', () => {
  const at = (endpoint: Endpoint) => ignoredAt(endpoint, 'chat', { service_tier: 'priority' })
  expect(at(buildEndpoint())).toEqual(['service_tier'])
  expect(at(buildEndpoint({ service_tier: 'priority' }))).toEqual([])
})

test('require_parameters excludes an endpoint that would leave one out', () => {
  const routing = { require_parameters: true }
  const check = (params: TextCall['params'], endpoint: Endpoint) =>
    understanding.checkEndpoint(buildTextCall({ routing, params }), endpoint)
  expect(check({ logit_bias: { 5: 1 } }, COHERE)).toBe('require_parameters')
  expect(check({ logit_bias: { 5: 1 } }, buildEndpoint())).toBe(true)
  expect(check({ temperature: 0.5 }, COHERE)).toBe(true)
})

test('names fit into a header, and are not many', () => {
  const fields = Object.fromEntries([...Array(100).keys()].map(i => [`höhe, ${i}`, 1]))
  const names = ignoredAt(COHERE, 'messages', { ...fields, ['x'.repeat(100)]: 1 })
  expect(names).toHaveLength(64)
  expect(names[0]).toBe('h_he__0')
  expect(ignoredAt(COHERE, 'messages', { ['x'.repeat(100)]: 1 })).toEqual(['x'.repeat(64)])
})

test('a call that loses nothing is the same, and one that loses something is changed', () => {
  const fit = (call: TextCall, endpoint: Endpoint) => understanding.fitToEndpoint(call, endpoint)
  const call = buildTextCall({ params: { temperature: 0.5, logit_bias: { 5: 1 } } })
  expect(fit(call, buildEndpoint())).toBe(call)
  expect(fit(call, COHERE)).not.toBe(call)
  const plain = buildTextCall({ extra: { frobnicate: 1 } })
  expect(fit(plain, COHERE)).toBe(plain)
})
