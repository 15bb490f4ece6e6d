import type { CallPlanned } from '../../../extensions/activity/entries.ts'
import type { LiveCall } from '../live.ts'
import type { CallRecord, PastExplanation } from '../source.ts'
import { fit, formatTime, formatUsd, type Line, say, wrap } from '../text.ts'

/** Fields of a record that have a section of their own. */
const SECTIONS = ['provider_responses', 'steps', 'content_filters'] as const

/**
 * Renders one call: what the feed told of its plan and attempts, and every field of its record, as
 * `gateway generations get --json` has it, and between them what would become of it `now`, or why
 * that cannot be said. Both are null while the call runs.
 */
export function renderCall(
  call: LiveCall,
  record: CallRecord | null,
  now: PastExplanation | string | null,
  width: number,
): Line[] {
  return [
    ...renderSummary(call, width),
    ...renderPlan(call, width),
    ...(record ? renderResponses(record, width) : renderAttempts(call, width)),
    ...(record
      ? [
          ...renderUsage(record, width),
          ...renderSteps(record, width),
          ...renderFilters(record, width),
        ]
      : []),
    ...renderExplanation(now, width),
    ...(record
      ? renderRecord(record, width)
      : [
          say(''),
          say(
            call.state === 'refused'
              ? 'A refused call has no record'
              : 'The record is written at the end',
            'dim',
          ),
        ]),
  ]
}

function renderSummary(call: LiveCall, width: number): Line[] {
  const facts = [
    call.state === 'running' ? 'running' : `${call.status ?? '-'} ${call.error ?? ''}`.trim(),
    call.model,
    call.provider || 'no provider yet',
    `${call.tokens} tokens`,
    formatUsd(call.cost),
    `first part ${formatTime(call.latency)}`,
    `took ${formatTime(call.time)}`,
  ]
  return [
    say(fit(call.id, width), 'bold'),
    ...wrap(facts.join(' · '), width).map(text =>
      say(text, (call.status ?? 0) >= 400 ? 'bad' : 'plain'),
    ),
  ]
}

function renderPlan({ plan: json, attempts }: LiveCall, width: number): Line[] {
  if (json === null) return []
  const plan: CallPlanned = JSON.parse(json)
  const tried = new Set(attempts.map(({ endpoint }) => endpoint))
  const candidates = plan.candidates.map(candidate => {
    const chance =
      candidate.probability === null
        ? '   -'
        : `${Math.round(candidate.probability * 100)}%`.padStart(4)
    const price = `${perMillion(candidate.prompt_price)}/${perMillion(candidate.completion_price)}`
    const notes = [
      tried.has(candidate.endpoint) ? 'tried' : '',
      candidate.cooling_down ? 'cooling down' : '',
    ]
    const text = `${chance}  ${price.padEnd(16)}  ${candidate.endpoint}  ${notes.filter(Boolean).join(', ')}`
    return say(fit(text, width), candidate.cooling_down ? 'warn' : 'plain')
  })
  const dropped = plan.dropped.flatMap(({ provider, model, excluded_by, reason }) =>
    wrap(`dropped: ${provider} ${model}: ${excluded_by}: ${reason}`, width).map(text =>
      say(text, 'dim'),
    ),
  )
  const more = plan.more > 0 ? [say(`and ${plan.more} more`, 'dim')] : []
  return [
    ...title(`Plan (step ${plan.step}): chance to be first, USD per million tokens, endpoint`),
    ...candidates,
    ...dropped,
    ...more,
  ]
}

function renderAttempts({ attempts }: LiveCall, width: number): Line[] {
  if (attempts.length === 0) return []
  return [
    ...title('Attempts'),
    ...attempts.flatMap(({ endpoint, outcome, status, error_type, message, latency }, index) => [
      say(
        fit(
          `${index + 1}. ${endpoint}  ${outcome}  ${status ?? ''} ${error_type ?? ''}  ${formatTime(latency)}`,
          width,
        ),
        outcome === 'failed' ? 'bad' : 'plain',
      ),
      ...(message ? wrap(`   ${message}`, width).map(text => say(text, 'dim')) : []),
    ]),
  ]
}

function renderResponses({ provider_responses }: CallRecord, width: number): Line[] {
  if (provider_responses.length === 0) return []
  return [
    ...title('Attempts'),
    ...provider_responses.flatMap((attempt, index) => {
      const { endpoint_id, status, latency, error, is_byok, request_id } = attempt
      const facts = [
        `${index + 1}. ${endpoint_id}`,
        status === null ? 'no answer' : String(status),
        formatTime(latency),
        error ? [error.type, error.code].filter(Boolean).join(' ') : 'answered',
        is_byok ? 'own key' : '',
        request_id ? `request ${request_id}` : '',
      ]
      return [
        say(fit(facts.filter(Boolean).join('  '), width), error ? 'bad' : 'good'),
        ...(error?.message ? wrap(`   ${error.message}`, width).map(text => say(text, 'dim')) : []),
      ]
    }),
  ]
}

/** Renders what was used, by class, what it cost, and how that is known. */
function renderUsage(record: CallRecord, width: number): Line[] {
  const { native_tokens_prompt, native_tokens_cached, native_tokens_completion } = record
  const { native_tokens_reasoning, native_tokens_completion_images: images } = record
  const tokens = [
    `${native_tokens_prompt} tokens in, ${native_tokens_cached} of them cached`,
    `${native_tokens_completion} out, ${native_tokens_reasoning} of them reasoning`,
    images > 0 ? `${images} of pictures` : '',
  ]
  const cost = [
    `${record.is_priced === false ? 'unpriced' : formatUsd(record.total_cost)}, ${SOURCES[record.usage_source]}`,
    record.upstream_inference_cost === null
      ? ''
      : `the provider took ${formatUsd(record.upstream_inference_cost)}`,
    record.is_byok ? 'by the caller’s own key' : '',
    record.service_tier ? `tier ${record.service_tier}` : '',
    record.session_id ? `session ${record.session_id}` : '',
  ]
  return [
    ...title('Usage and cost'),
    ...[tokens, cost].flatMap(facts =>
      wrap(facts.filter(Boolean).join('; '), width).map(text => say(text)),
    ),
  ]
}

const SOURCES = {
  exact: 'by the provider’s own counts',
  estimated: 'by our estimate of the tokens',
  none: 'as nothing was used',
}

function renderSteps({ steps }: CallRecord, width: number): Line[] {
  if (steps.length === 0) return []
  return [
    ...title('Steps'),
    ...steps.map((step, index) => {
      const what = step.function === null ? step.name : `${step.name} ${step.function}`
      const facts = [
        `${' '.repeat((step.depth ?? 0) * 2)}${index + 1}. ${step.type} ${what}`,
        step.provider_name ?? '',
        step.type === 'model'
          ? `${step.native_tokens_prompt}+${step.native_tokens_completion} tokens`
          : '',
        formatUsd(step.cost),
        formatTime(step.latency),
        step.error_type ?? (step.is_error ? 'error' : (step.finish_reason ?? 'done')),
      ]
      return say(fit(facts.filter(Boolean).join('  '), width), step.is_error ? 'bad' : 'plain')
    }),
  ]
}

function renderFilters({ content_filters }: CallRecord, width: number): Line[] {
  if (content_filters.length === 0) return []
  return [
    ...title('Filters'),
    ...content_filters.map(({ filter, action, where, count, guardrail_id }) =>
      say(
        fit(
          `${action} ${filter} in the ${where}, ${count} times (guardrail ${guardrail_id})`,
          width,
        ),
        'warn',
      ),
    ),
  ]
}

/** Lists every other field of the record, so that nothing that the command shows is missing. */
function renderRecord(record: CallRecord, width: number): Line[] {
  const fields = Object.entries(record).filter(
    ([name]) => !(SECTIONS as readonly string[]).includes(name),
  )
  const nameWidth = Math.max(...fields.map(([name]) => name.length))
  return [
    ...title('Record'),
    ...fields.map(([name, value]) => [
      { text: name.padEnd(nameWidth + 2), style: 'dim' as const },
      {
        text: fit(renderValue(value), Math.max(1, width - nameWidth - 2)),
        style: 'plain' as const,
      },
    ]),
  ]
}

const renderValue = (value: unknown): string =>
  typeof value === 'object' && value !== null ? JSON.stringify(value) : String(value ?? '-')

/** Shows prices in USD per million tokens. */
const perMillion = (price: string): string => {
  const usd = Number(price) * 1_000_000
  return usd < 0 ? '?' : `$${Number(usd.toPrecision(4))}`
}

/** The heading of a section, under an empty line. */
const title = (text: string): Line[] => [say(''), say(text, 'bold')]

/** How many dropped endpoints are listed: most are of providers without a key. */
const MOST_DROPPED = 30

/**
 * Renders what would become of the request of a past call now: its endpoints in order with price
 * and chance, the reasons of those that are dropped, limits and filters. A sentence says why that
 * is not known; null that it is not known yet.
 */
function renderExplanation(now: PastExplanation | string | null, width: number): Line[] {
  if (now === null) return []
  const heading = title('The same request now: chance, USD per million tokens, endpoint')
  if (typeof now === 'string')
    return [...heading, ...wrap(now, width).map(text => say(text, 'dim'))]
  const { explanation, unknown } = now
  return [
    ...heading,
    ...renderOutcome(now, width),
    ...explanation.endpoints.map(endpoint => renderEndpoint(endpoint, width)),
    ...renderDropped(explanation, width),
    ...renderPolicy(explanation, width),
    ...unknown.flatMap(sentence => wrap(sentence, width).map(text => say(text, 'dim'))),
  ]
}

/** In characters: an account may be a long hash. */
const LONGEST = 24

type Explanation = PastExplanation['explanation']

function renderOutcome({ explanation: { error, endpoints } }: PastExplanation, width: number) {
  const text = error
    ? `it would be refused: ${error.code} ${error.message}`
    : endpoints.length === 0
      ? 'it would go to no endpoint'
      : ''
  return text === '' ? [] : wrap(text, width).map(one => say(one, 'bad'))
}

function renderEndpoint(endpoint: Explanation['endpoints'][number], width: number): Line {
  const { probability, pricing, provider, model, estimated_cost, cooldown, session } = endpoint
  const chance = probability === null ? '   -' : `${Math.round(probability * 100)}%`.padStart(4)
  const price = `${perMillion(String(pricing.prompt))}/${perMillion(String(pricing.completion))}`
  const notes = [
    estimated_cost === null ? '' : `up to ${formatUsd(estimated_cost.usd)}`,
    session ? 'the session is here' : '',
    endpoint.is_byok ? 'by the caller’s own key' : '',
    cooldown ? `cooling down: ${cooldown.reason}` : '',
  ]
  const text = `${chance}  ${price.padEnd(16)}  ${model} ${provider}  ${notes.filter(Boolean).join(', ')}`
  return say(fit(text, width), cooldown ? 'warn' : 'plain')
}

function renderDropped({ dropped }: Explanation, width: number): Line[] {
  const told = dropped.filter(({ excluded_by }) => excluded_by !== 'not_configured')
  const others = dropped.length - told.length + Math.max(0, told.length - MOST_DROPPED)
  return [
    ...told
      .slice(0, MOST_DROPPED)
      .flatMap(({ provider, model, excluded_by, reason }) =>
        wrap(`dropped: ${provider} ${model}: ${excluded_by}: ${reason}`, width).map(text =>
          say(text, 'dim'),
        ),
      ),
    ...(others > 0 ? [say(`dropped: ${others} others, most of them not configured`, 'dim')] : []),
  ]
}

function renderPolicy(
  { key, policy: { guardrails, limits, filters } }: Explanation,
  width: number,
): Line[] {
  const name = (account: string) =>
    account === `key ${key?.hash}` ? `key ${key?.name || key?.label}` : account.slice(0, LONGEST)
  return [
    ...guardrails.map(({ id, name, scope }) => `guardrail of the ${scope}: ${name ?? id}`),
    ...limits.map(
      ({ account, period, limit_usd, remaining_usd, pays }) =>
        `limit of ${name(account)} (${period ?? 'total'}): ${formatUsd(remaining_usd)} left of ` +
        `${formatUsd(limit_usd)}; it pays: ${pays ?? 'unknown'}`,
    ),
    ...filters.map(
      ({ filter, action, looks_at, found }) =>
        `filter ${filter}: ${action} in the ${looks_at.join(' and ')}, found ${found ?? 'unknown'}`,
    ),
  ].map(text => say(fit(text, width), text.endsWith('pays: no') ? 'bad' : 'plain'))
}
