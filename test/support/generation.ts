import type { StepCharge } from '../../src/core/ledger/ledger.ts'
import type { Generation } from '../../src/core/telemetry/generations.ts'
import type { Entry } from '../../src/core/telemetry/recorder.ts'

/** The record of a call that was answered, with `more` laid over it. */
export const generationWith = (more: Partial<Generation> = {}): Generation => ({
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
  title: 'A “title” with \u0000 in it',
  user_agent: null,
  error_type: null,
  preset_id: 'preset-1',
  data_region: 'europe',
  router: 'gateway/auto',
  contentFilters: [],
  ...more,
})

/** Who paid for it. */
export const PAYER = {
  key_hash: 'k',
  user_id: 'user_1',
  workspace_id: '00000000-0000-7000-8000-000000000001',
}

/** What that call cost a key, with `more` laid over it. */
export const chargeWith = (more: Partial<StepCharge> = {}): StepCharge => ({
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

/** A call's record under this id, and its charge. */
export const entryOf = (id: string, charge: Partial<StepCharge> = {}): Entry => ({
  generation: generationWith({ id }),
  charge: chargeWith({ id, ...charge }),
})

/** A settled step of a call that goes on. */
export const stepOf = (id: string, step: number, charge: Partial<StepCharge> = {}): Entry => ({
  generation: null,
  charge: chargeWith({ id, step, ...charge }),
})
