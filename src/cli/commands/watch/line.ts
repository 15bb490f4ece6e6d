import { toPrintable } from '../../../base/printable.ts'
import type { ActivityEntry } from '../../../extensions/activity/entries.ts'
import { formatDollars } from '../../output.ts'

type EntryOf<Type extends ActivityEntry['type']> = Extract<ActivityEntry, { type: Type }>

/** What a line says of each type of entry. Those without one are for `--json` alone. */
const TEXTS: {
  [Type in ActivityEntry['type']]: ((entry: EntryOf<Type>) => (string | null)[]) | null
} = {
  listening: null,
  state: null,
  'call.progress': null,
  'call.opened': ({ id, models, key_name, app }) => [
    id,
    models.join(', '),
    `key ${key_name ?? 'operator'}`,
    app && `app ${app}`,
  ],
  'call.planned': ({ id, candidates, dropped, more }) => [
    id,
    candidates.map(({ provider, model }) => `${provider} ${model}`).join(' > '),
    dropped.length > 0 ? `${dropped.length} dropped` : null,
    more > 0 ? `${more} more` : null,
  ],
  'attempt.started': ({ id, provider, model }) => [id, `${provider} ${model}`],
  'attempt.failed': ({ id, provider, model, status, error_type, message, latency }) => [
    id,
    `${provider} ${model}`,
    `${status ?? 'no answer'} ${error_type}`,
    `${latency} ms`,
    message,
  ],
  'hedge.started': ({ provider, model }) => [`${provider} ${model}`],
  'call.answering': ({ id, latency }) => [id, `after ${latency} ms`],
  'call.finished': call => [
    call.id,
    `${call.status} ${call.error_type ?? call.finish_reason ?? ''}`.trim(),
    call.model,
    call.provider_name,
    `${call.attempts} attempt${call.attempts === 1 ? '' : 's'}`,
    `${call.tokens_prompt}+${call.tokens_completion} tokens`,
    formatDollars(call.total_cost),
    `${call.generation_time ?? '-'} ms`,
    `key ${call.key_name ?? 'operator'}`,
  ],
  'call.refused': ({ id, status, model, key_name, message }) => [
    id,
    String(status),
    model,
    key_name && `key ${key_name}`,
    message,
  ],
  'circuit.opened': ({ endpoint, reason, seconds_left }) => [
    endpoint,
    reason,
    `for ${seconds_left} s`,
  ],
  'circuit.closed': ({ endpoint }) => [endpoint],
  'limit.near': ({ account, name, period, share, spent, limit }) => [
    `${account} ${name ?? ''}`.trim(),
    `${Math.floor(share * 100)}% of its ${period ?? 'total'} limit`,
    `${formatDollars(spent)} of ${formatDollars(limit)}`,
  ],
  'config.applied': ({ changed, needs_restart }) => [
    changed.join(', ') || 'no change',
    needs_restart.length > 0 ? `after a restart: ${needs_restart.join(', ')}` : null,
  ],
  'config.rejected': ({ message }) => [message],
  alarm: ({ name, message }) => [name, message],
  lost: ({ count }) => [`${count} entries, as they were not read in time`],
}

/** Renders an entry as one line; null for one that only `--json` prints. */
export function renderEntry(entry: ActivityEntry): string | null {
  const render = TEXTS[entry.type] as ((entry: ActivityEntry) => (string | null)[]) | null
  if (!render) return null
  const cells = render(entry).filter(cell => cell !== null && cell !== '')
  return toPrintable([entry.at.slice(11, 23), entry.type.padEnd(15), ...cells].join('  '))
}
