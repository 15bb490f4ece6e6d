import type { Gateway } from '../../../app/gateway.ts'
import { GatewayError } from '../../../base/errors.ts'
import { toUsd } from '../../../base/money.ts'
import { getCallStatus, listIgnored } from '../../../observability/generations.ts'
import type { ValkeyState } from '../../../store/valkey.ts'
import { createLog, type Level, type Log, type LogFormat, openLineWriter } from '../../log.ts'
import { describeSystemError } from '../../system-errors.ts'

/** How a server logs. */
export interface LogOptions {
  log: LogFormat
  logLevel: Level
  accessLog: boolean
  /** Which of several servers of one port writes. */
  worker?: number
}

/**
 * Creates a logger that writes one line per event to stderr. Third-party text is logged only as a
 * short cause, or as the cleaned reason of a provider.
 */
export function createServerLog(
  { log: format, logLevel, accessLog, worker }: LogOptions,
  gateway: Gateway,
): Log {
  const write = openLineWriter(Bun.stderr.writer(), lines => log('warn', 'log.dropped', { lines }))
  const own = createLog({ format, level: logLevel, now: () => gateway.clock.now(), write })
  const log: Log =
    worker === undefined ? own : (level, event, facts) => own(level, event, { worker, ...facts })
  if (accessLog) logEachCall(log, gateway)
  if (accessLog)
    gateway.events.on('call.refused', ({ id: request_id, key, path, model, ...refusal }) =>
      log('info', 'call.refused', {
        request_id,
        key: key ?? undefined,
        path,
        model: model ?? undefined,
        status: refusal.status,
        error: refusal.error_type,
        message: refusal.message,
      }),
    )
  gateway.events.on('refusals.skipped', ({ count }) => log('warn', 'refusals.skipped', { count }))
  logConfig(log, gateway)
  logCalls(log, gateway)
  gateway.events.on('byok.unreadable', ({ id, provider }) =>
    log('warn', 'byok.unreadable', {
      id,
      provider,
      consequence: 'sealed with another secret (GATEWAY_SECRET, secret.key), so it is not used',
    }),
  )
  gateway.events.on('mcp_program.ended', ({ label, reason, exit_code, stderr }) =>
    log('warn', 'mcp_program.ended', {
      ...{ server: label, reason, exit_code: exit_code ?? undefined, stderr: stderr || undefined },
      consequence: 'the next use starts it again, after a pause that grows',
    }),
  )
  logDestinations(log, gateway)
  gateway.events.on('descriptors.scarce', () =>
    log('warn', 'descriptors.scarce', {
      consequence: 'calls are refused until some are free (ulimit -n)',
    }),
  )
  gateway.events.on('descriptors.sufficient', () => log('info', 'descriptors.sufficient', {}))
  gateway.events.on('overload.began', ({ reason }) =>
    log('warn', 'overload.began', {
      reason,
      consequence: 'calls that do not fit are refused with 503 (limits.memory, limits.in_flight)',
    }),
  )
  gateway.events.on('overload.ended', ({ refused }) => log('info', 'overload.ended', { refused }))
  gateway.events.on('store.failing', ({ error }) =>
    log('error', 'store.failing', {
      cause: describeSystemError(error) ?? getCause(error),
      consequence: 'what cannot be written is refused until it can',
    }),
  )
  const logValkey = ({ isUp, words }: ValkeyState) =>
    log(isUp ? 'info' : 'warn', 'valkey.changed', { valkey: words })
  gateway.events.on('valkey.changed', logValkey)
  if (gateway.hot) logValkey(gateway.hot.state)
  gateway.events.on('node.lost', () =>
    log('error', 'node.lost', {
      consequence: 'another server has claimed this database: this one ends',
    }),
  )
  gateway.events.on('store.slow', ({ milliseconds }) =>
    log('warn', 'store.slow', {
      milliseconds: Math.round(milliseconds),
      consequence: 'calls wait for the disk; after two seconds new ones are refused with 503',
    }),
  )
  gateway.events.on('store.recovered', () => log('info', 'store.recovered', {}))
  gateway.events.on('checkpoint.failing', ({ error }) =>
    log('error', 'checkpoint.failing', {
      cause: describeSystemError(error) ?? getCause(error),
      consequence: 'nobody would notice if rows were missing at the end of the ledger',
    }),
  )
  gateway.events.on('checkpoint.recovered', () => log('info', 'checkpoint.recovered', {}))
  gateway.events.on('request.failed', ({ id: request_id, path, error }) =>
    log('error', 'request.failed', {
      ...{ request_id, path, cause: getCause(error), at: getPlace(error) },
      consequence: 'answered with 500: this is a bug of the gateway',
    }),
  )
  return log
}

/** Returns where in the program an error was thrown; its message may have what a caller sent. */
const getPlace = (error: unknown): string | undefined =>
  error instanceof Error ? /^\s+at (.+)$/m.exec(error.stack ?? '')?.[1] : undefined

/** Logs when a destination cannot be told, and when it can again; not each request. */
function logDestinations(log: Log, { events }: Gateway): void {
  events.on('destination.failing', ({ id, type, reason }) =>
    log('warn', 'destination.failing', {
      ...{ id, type, reason },
      consequence: 'calls wait for it and are tried again for 24 hours',
    }),
  )
  events.on('destination.recovered', ({ id, type }) =>
    log('info', 'destination.recovered', { id, type }),
  )
  events.on('destination.gone', ({ id, type }) =>
    log('warn', 'destination.gone', {
      ...{ id, type },
      consequence: 'it is paused until gateway destinations resume',
    }),
  )
  let isExporting = true
  events.on('metrics.exported', ({ reason }) => {
    if (reason !== null && isExporting) log('warn', 'metrics.failing', { reason })
    if (reason === null && !isExporting) log('info', 'metrics.recovered', {})
    isExporting = reason === null
  })
  events.on('delivery.ended', ({ destination_id: id, verdict, count, status, reason }) => {
    if (verdict === 'refused') log('warn', 'delivery.refused', { id, calls: count, status, reason })
  })
  events.on('deliveries.dropped', ({ destination_id: id, count: calls }) =>
    log('warn', 'deliveries.dropped', { id, calls, consequence: 'the queue was full' }),
  )
  events.on('broadcast.failed', ({ id: generation, error }) =>
    log('error', 'broadcast.failed', { generation, cause: getCause(error) }),
  )
}

/** Logs one line for each finished call. */
function logEachCall(log: Log, { events, memory }: Gateway): void {
  events.on('generation.finished', call =>
    log('info', 'call', {
      request_id: call.request_id,
      generation: call.id,
      key: call.key_hash === null ? 'operator' : (memory.keys.get(call.key_hash)?.label ?? 'gone'),
      model: call.model,
      provider: call.provider_name ?? undefined,
      status: getCallStatus(call),
      error: call.error_type ?? undefined,
      input_tokens: call.native_tokens_prompt,
      output_tokens: call.native_tokens_completion,
      cost: toUsd(call.total_cost ?? 0n),
      ms: call.generation_time,
      first_ms: call.latency ?? undefined,
      attempts: call.provider_responses.length,
      ignored: listIgnored(call.provider_responses).join(' ') || undefined,
    }),
  )
}

/** The most words of providers that are logged: they are the provider's to choose. */
const MOST_KNOWN = 500

function logCalls(log: Log, { events }: Gateway): void {
  events.on('attempt.failed', ({ id, endpoint, error, status, request_id }) =>
    log('warn', 'attempt.failed', {
      generation: id,
      provider: endpoint.provider.slug,
      model: endpoint.model,
      type: error.type,
      status: status ?? undefined,
      code: error.reason?.code ?? undefined,
      reason: error.reason?.message ?? undefined,
      provider_request_id: request_id ?? undefined,
      cause: getCause(error),
    }),
  )
  const unpriced = new Set<string>()
  events.on('price.missing', ({ endpoint: { model, provider } }) => {
    if (unpriced.has(`${provider.slug} ${model}`)) return
    unpriced.add(`${provider.slug} ${model}`)
    log('warn', 'price.missing', {
      provider: provider.slug,
      model,
      consequence: 'the cost of its calls is unknown and not charged',
    })
  })
  const implausible = new Set<string>()
  events.on('usage.implausible', ({ endpoint: { model, provider } }) => {
    if (implausible.has(`${provider.slug} ${model}`)) return
    implausible.add(`${provider.slug} ${model}`)
    log('warn', 'usage.implausible', {
      provider: provider.slug,
      model,
      consequence:
        'such calls are charged as estimated; gateway_implausible_usage_total counts them',
    })
  })
  const unknownEnds = new Set<string>()
  events.on('finish.unknown', ({ endpoint: { model, provider }, word }) => {
    if (unknownEnds.size >= MOST_KNOWN || unknownEnds.has(`${provider.slug} ${word}`)) return
    unknownEnds.add(`${provider.slug} ${word}`)
    log('warn', 'finish.unknown', {
      provider: provider.slug,
      model,
      word: word.slice(0, 100),
      consequence:
        'such answers count as errors, as they may be cut; ' +
        `providers.${provider.slug}.finish_reasons in the config says what the word means`,
    })
  })
  const troubles = new Set<string>()
  events.on('operator.needed', ({ endpoint: { model, provider }, trouble, reason, credential }) => {
    const about = `${provider.slug} ${model} ${trouble} ${credential}`
    if (troubles.has(about)) return
    troubles.add(about)
    log('error', 'operator.needed', {
      provider: provider.slug,
      ...{ credential, model, trouble },
      reason: reason ?? undefined,
      consequence:
        'no request can mend it, so other endpoints are asked; ' +
        'gateway_operator_needed_total counts such attempts',
    })
  })
  events.on('alert.undelivered', ({ alert_id, name, error }) =>
    log('warn', 'alert.undelivered', {
      ...{ alert_id, name, cause: error },
      consequence: 'it is not sent again; gateway alerts test says what its receiver answers',
    }),
  )
  events.on('filter.matched', finding => log('info', 'filter.matched', { ...finding }))
}

// Settings are logged by name, and errors in the words of `config check`. Values are never logged.
function logConfig(log: Log, { events }: Gateway): void {
  events.on('config.applied', ({ changed, needsRestart: settings }) => {
    log('info', 'config.applied', { changed })
    if (settings.length > 0)
      log('warn', 'config.needs_restart', {
        settings,
        consequence: 'they keep their values until a restart',
      })
  })
  events.on('config.rejected', ({ error: { message, metadata } }) =>
    log('error', 'config.rejected', {
      path: metadata.field,
      reason: message.replaceAll('\n', '; '),
      consequence: 'the previous config stays in effect',
    }),
  )
}

/**
 * Returns a short cause of an error: its code or name. Its text may contain an address with a
 * credential.
 */
export function getCause(error: unknown): string | undefined {
  const cause = error instanceof GatewayError ? error.cause : error
  if (cause instanceof GatewayError) return getCause(cause)
  if (!(cause instanceof Error)) return undefined
  return 'code' in cause ? String(cause.code) : cause.name
}
