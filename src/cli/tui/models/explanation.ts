import type { PastExplanation } from '../source.ts'
import { fit, formatUsd, type Line, say, wrap } from '../text.ts'

/** Shows prices in USD per million tokens. */
export const perMillion = (price: string): string => {
  const usd = Number(price) * 1_000_000
  return usd < 0 ? '?' : `$${Number(usd.toPrecision(4))}`
}

/** The heading of a section, under an empty line. */
export const title = (text: string): Line[] => [say(''), say(text, 'bold')]

/** How many dropped endpoints are listed: most are of providers without a key. */
const MOST_DROPPED = 30

/**
 * Renders what would become of the request of a past call now: its endpoints in order with price
 * and chance, the reasons of those that are dropped, limits and filters. A sentence says why that
 * is not known; null that it is not known yet.
 */
export function renderExplanation(now: PastExplanation | string | null, width: number): Line[] {
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
