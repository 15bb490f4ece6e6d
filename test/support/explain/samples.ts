/** The providers of the samples. Those that are down answer 503. */
export const NAMES = ['first', 'second', 'third'] as const
export type Name = (typeof NAMES)[number]

/** The kinds of keys that samples are sent with, by their limits. */
export const KEYS = ['plain', 'zdr', 'filtered', 'redacted', 'poor', 'scarce', 'european'] as const
export type KeyName = (typeof KEYS)[number]

/** A request and its expected outcome. */
export interface Sample {
  /** The body, of a chat request unless another dialect is named. */
  body: Record<string, unknown>
  dialect?: 'chat' | 'messages' | 'embeddings'
  key?: KeyName
  /** The providers that are down. */
  down?: Name[]
  /** The provider that answers; absent if the request is refused. */
  answers?: Name
  /** The status with which it is refused before any provider is called. */
  refused?: number
  /** Whether the order of endpoints depends on measurements of the server. */
  isMeasured?: boolean
}

const ask = (more: object, content = 'Hi') => ({
  model: 'acme/small',
  messages: [{ role: 'user', content }],
  max_tokens: 100,
  ...more,
})

/** Requests of every kind, by what is special about them. */
export const SAMPLES: Record<string, Sample> = {
  'nothing special': { body: ask({}), answers: 'first' },
  'the first is down': { body: ask({}), down: ['first'], answers: 'second' },
  'the first two are down, streamed': {
    body: ask({ stream: true }),
    down: ['first', 'second'],
    answers: 'third',
  },
  'the cheapest': { body: ask({ provider: { sort: 'price' } }), answers: 'third' },
  'the cheapest, which is down': {
    body: ask({ provider: { sort: 'price' } }),
    down: ['third'],
    answers: 'second',
  },
  'an order without fallbacks': {
    body: ask({ provider: { order: ['second'], allow_fallbacks: false } }),
    answers: 'second',
  },
  'the first and no other': {
    body: ask({ provider: { allow_fallbacks: false } }),
    answers: 'first',
  },
  'another model behind it': {
    body: ask({ models: ['acme/other'], provider: { ignore: ['second', 'third'] } }),
    answers: 'first',
  },
  'another model, where the first is down': {
    body: ask({ model: 'acme/rare', models: ['acme/other'] }),
    down: ['first'],
    answers: 'third',
  },
  'a preset': { body: ask({ model: '@preset/careful', max_tokens: undefined }), answers: 'second' },
  'a guardrail for zero data retention': { body: ask({}), key: 'zdr', answers: 'second' },
  'a provider key of his own': { body: ask({ model: 'acme/owned' }), answers: 'second' },
  'parameters that must be heeded': {
    body: ask({ seed: 7, provider: { require_parameters: true } }),
    answers: 'second',
  },
  'a highest price': { body: ask({ provider: { max_price: { prompt: 1.5 } } }), answers: 'third' },
  'the quickest': { body: ask({ model: 'acme/small:nitro' }), isMeasured: true },
  'the quickest, none of which answers': {
    body: ask({ model: 'acme/small:nitro' }),
    down: ['first', 'second', 'third'],
    isMeasured: true,
  },
  'the auto router': { body: ask({ model: 'gateway/auto' }) },
  'the auto router, of which the first is down': {
    body: ask({ model: 'openrouter/auto' }),
    down: ['first'],
  },
  'the auto router with nothing to choose from': {
    body: ask({
      model: 'gateway/auto',
      plugins: [{ id: 'auto-router', allowed_models: ['nobody/*'] }],
    }),
    refused: 404,
  },
  'a limit that pays for a shorter answer': {
    body: ask({ max_tokens: 100_000 }),
    key: 'scarce',
    answers: 'first',
  },
  'a text that is redacted': {
    body: ask({}, 'I am ada@acme.example'),
    key: 'redacted',
    answers: 'first',
  },
  'Anthropic’s dialect': { body: ask({ max_tokens: 50 }), dialect: 'messages', answers: 'first' },
  vectors: {
    body: { model: 'acme/vectors', input: 'Hi' },
    dialect: 'embeddings',
    answers: 'first',
  },
  'a limit that is reached': { body: ask({}), key: 'poor', refused: 402 },
  'a text that is blocked': {
    body: ask({}, 'I am ada@acme.example'),
    key: 'filtered',
    refused: 403,
  },
  'a way in that is not allowed': { body: ask({}), key: 'european', refused: 403 },
  'an unknown model': { body: ask({ model: 'acme/unknown' }), refused: 400 },
  'an unknown preset': { body: ask({ preset: 'unknown' }), refused: 404 },
  'no endpoint left': {
    body: ask({ provider: { only: ['third'], ignore: ['third'] } }),
    refused: 404,
  },
  'no endpoint left by a guardrail': {
    body: ask({ provider: { only: ['first'] } }),
    key: 'zdr',
    refused: 404,
  },
  'an empty list of providers': { body: ask({ provider: { only: [] } }), refused: 400 },
}
