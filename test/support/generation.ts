import type { StepCharge } from '../../src/limits/ledger.ts'
import type { Generation, RecorderEntry } from '../../src/observability/generations/store.ts'

/** Builds the record of an answered call, with `more` applied. */
export const buildGeneration = (more: Partial<Generation> = {}): Generation => ({
  id: 'gen-1',
  request_id: 'req-1',
  created_at: '2026-03-04T05:06:07.000Z',
  workspace_id: '00000000-0000-7000-8000-000000000001',
  key_hash: 'k',
  user_id: 'user_1',
  api_type: 'completions',
  model: 'acme/small',
  provider_name: 'Local',
  provider_responses: [
    {
      provider_name: 'Local',
      model_permaslug: 'acme/small',
      endpoint_id: 'local/up',
      is_byok: false,
      latency: 12,
      status: 200,
      request_id: 'req_up',
      error: null,
    },
  ],
  upstream_id: 'chatcmpl-1',
  streamed: true,
  cancelled: false,
  finish_reason: 'stop',
  native_finish_reason: 'stop',
  latency: 12,
  generation_time: 34.5,
  native_tokens_prompt: 10,
  native_tokens_completion: 5,
  native_tokens_reasoning: 2,
  native_tokens_cached: 3,
  native_tokens_completion_images: 0,
  settled_at: '2026-03-04T05:06:08.000Z',
  total_cost: 4_500n,
  upstream_inference_cost: 4_500n,
  usageSource: 'exact',
  is_byok: false,
  service_tier: null,
  session_id: 's-1',
  external_user: null,
  http_referer: 'https://a.example',
  title: 'A “title” in it',
  user_agent: null,
  error_type: null,
  preset_id: 'preset-1',
  data_region: 'europe',
  router: 'gateway/auto',
  response_cache_source_id: null,
  batch_id: null,
  contentFilters: [],
  steps: [],
  ...more,
})

/** The payer of that call. */
export const PAYER = {
  key_hash: 'k',
  user_id: 'user_1',
  workspace_id: '00000000-0000-7000-8000-000000000001',
}

/** Builds the charge of that call, with `more` applied. */
export const buildStepCharge = (more: Partial<StepCharge> = {}): StepCharge => ({
  ...PAYER,
  id: 'gen-1',
  step: 1,
  day: 20_516,
  settled_at: '2026-03-04T05:06:08.000Z',
  byok: false,
  nanos: 4_500n,
  source: 'exact',
  ...more,
})

/** Builds a call's record with this id, and its charge. */
export const buildRecordEntry = (id: string, charge: Partial<StepCharge> = {}): RecorderEntry => ({
  generation: buildGeneration({ id }),
  charge: buildStepCharge({ id, ...charge }),
})

/** Builds the entry of a settled step of a call that continues. */
export const buildStepEntry = (
  id: string,
  step: number,
  charge: Partial<StepCharge> = {},
): RecorderEntry => ({
  generation: null,
  charge: buildStepCharge({ id, step, ...charge }),
})
