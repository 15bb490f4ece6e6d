import type { PluginSample } from '../plugin.ts'

const routerEntry = {
  allowed_models: ['Acme/*'],
  excluded_models: ['acme/m9'],
  cost_tier: 'low',
  cost_quality_tradeoff: 3,
}
const routerOptions = { allowed: ['acme/*'], excluded: ['acme/m9'], tier: 'low' }

/** A sample of every plugin, by its id. */
export const SAMPLES: Record<string, PluginSample> = {
  web: {
    entry: {
      engine: 'exa',
      max_results: 4,
      max_uses: 3,
      mode: 'fast',
      search_prompt: 'Use what was found',
      include_domains: ['a.example'],
      user_location: { city: 'Bern', country: 'CH' },
    },
    options: {
      engine: 'exa',
      max_results: 4,
      max_uses: 3,
      mode: 'fast',
      search_prompt: 'Use what was found',
      allowed_domains: ['a.example'],
      user_location: { type: 'approximate', city: 'Bern', country: 'CH' },
    },
  },
  'web-fetch': {
    entry: { allowed_domains: ['a.example'], max_content_tokens: 500, max_uses: 3 },
    options: {
      engine: 'auto',
      domains: { allowed: ['a.example'], excluded: [] },
      max_content_tokens: 500,
      max_uses: 3,
    },
  },
  'auto-router': {
    entry: { ...routerEntry, pin_model: true },
    options: { ...routerOptions, pinned: true },
    isDeterministic: true,
  },
  'auto-beta-router': { entry: routerEntry, options: routerOptions, isDeterministic: true },
  'pareto-router': {
    entry: { max_price: 2.5, min_coding_score: 0.4, price_source: 'prompt' },
    options: { maxPrice: 2.5, least: 0.4, source: 'prompt' },
    isDeterministic: true,
    fractions: ['max_price'],
  },
  'switchyard-router': {
    entry: { algorithm: 'random' },
    options: { algorithm: 'random' },
    isDeterministic: true,
  },
  'file-parser': { entry: { pdf: { engine: 'pdf-text' } }, options: { pdf: 'text' } },
  'response-healing': { entry: {}, options: {} },
  'context-compression': {
    entry: { engine: 'middle-out' },
    options: { engine: 'middle-out' },
  },
  moderation: { entry: {}, options: { provider: 'one', model: 'judge' } },
  'bodybuilder-router': { entry: {}, options: {}, isDeterministic: true },
  fusion: {
    entry: {
      ...{ analysis_models: ['acme/m1', 'acme/m2'], model: 'acme/m3', max_tool_calls: 2 },
      ...{ preset: 'general-fast', tools: [{ type: 'openrouter:datetime', parameters: {} }] },
    },
    options: {
      path: 'plugins.0',
      parameters: {
        ...{ analysis_models: ['acme/m1', 'acme/m2'], model: 'acme/m3', max_tool_calls: 2 },
        tools: [{ type: 'openrouter:datetime', parameters: {} }],
      },
    },
    isDeterministic: true,
  },
  'free-router': { entry: {}, options: {}, isDeterministic: false },
}
