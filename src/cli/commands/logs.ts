import { fill, NUMBER } from '../fields.ts'
import { defineVerbs, withInput } from '../noun.ts'

const verb = defineVerbs(() => import('../../core/telemetry/refusals.ts'))

const LOGS = [
  fill('id', '--id <id>', 'the call with this request id'),
  fill('limit', '--limit <n>', 'how many (20)', NUMBER),
]

/** `gateway logs`: calls that were refused before any provider was asked. */
export const createLogsCommand = () =>
  verb('logs', 'list calls that were refused before any provider was asked', LOGS, core =>
    withInput(core.RefusalQuery, (gateway, _, query) => core.listRefusals(gateway, query)),
  ).printAs({
    WHEN: refusal => refusal.created_at,
    KEY: refusal => refusal.key,
    STATUS: refusal => refusal.status,
    MODEL: refusal => refusal.model,
    MESSAGE: refusal => refusal.message,
    ID: refusal => refusal.id,
  })
