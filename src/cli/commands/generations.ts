import { fill, NUMBER } from '../fields.ts'
import { defineNoun, defineVerbs, withInput } from '../noun.ts'
import { formatDollars } from '../output.ts'

const verb = defineVerbs(() => import('../../core/telemetry/generations.ts'))

const RECENT = [fill('limit', '--limit <n>', 'how many', NUMBER)]

/** `gateway generations`: finished calls. */
export const createGenerationsCommand = () =>
  defineNoun('generations', 'finished calls', [
    verb('list', 'list the newest calls', RECENT, core =>
      withInput(core.RecentQuery, core.listGenerations),
    ).printAs({
      WHEN: call => call.created_at,
      MODEL: call => call.model,
      PROVIDER: call => call.provider_name,
      IN: call => call.native_tokens_prompt,
      OUT: call => call.native_tokens_completion,
      COST: call => formatDollars(call.total_cost),
      MS: call => call.generation_time,
      END: call => (call.cancelled ? 'cancelled' : call.finish_reason),
      ID: call => call.id,
    }),
    verb('get <id>', 'show a call', [], core => core.getGeneration),
  ])
