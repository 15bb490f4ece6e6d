import { renderTime } from '../base/clock.ts'
import { toPrintable, toPrintableJson } from '../base/printable.ts'

/** How much a line matters, from the least to the most. */
export const LEVELS = ['debug', 'info', 'warn', 'error'] as const
export type Level = (typeof LEVELS)[number]

export const LOG_FORMATS = ['text', 'json'] as const
export type LogFormat = (typeof LOG_FORMATS)[number]

/** Facts of a line, in their order. Those that are undefined are left out. */
export type Facts = Record<string, unknown>

/** Writes one line about an event. */
export type Log = (level: Level, event: string, facts: Facts) => void

/** What a log is written with. */
interface LogOptions {
  format: LogFormat
  /** Lines below it are not written. */
  level: Level
  now(): Date
  write(text: string, level: Level): void
}

/** Creates a log whose lines begin with their time and level. Below its level it costs nothing. */
export function createLog({ format, level, now, write }: LogOptions): Log {
  const lowest = LEVELS.indexOf(level)
  const render = format === 'json' ? renderJson : renderText
  return (of, event, facts) => {
    if (LEVELS.indexOf(of) < lowest) return
    write(`${render(renderTime(now()), of, event, facts)}\n`, of)
  }
}

// Two texts are joined: to copy the facts into one object costs more.
function renderJson(time: string, level: Level, event: string, facts: Facts): string {
  const head = `{"time":"${time}","level":"${level}","event":${JSON.stringify(event)}`
  const rest = toPrintableJson(facts)
  return rest === '{}' ? `${head}}` : `${head},${rest.slice(1)}`
}

function renderText(time: string, level: Level, event: string, facts: Facts): string {
  let line = `${time} ${level} ${event}`
  for (const name in facts)
    if (facts[name] !== undefined) line += ` ${name}=${renderValue(facts[name])}`
  return toPrintable(line)
}

// A value with a blank or a quote is quoted, so that no text of others looks like another fact.
function renderValue(value: unknown): string {
  const text = typeof value === 'object' ? JSON.stringify(value) : String(value)
  return /[\s"=]/.test(text) && typeof value !== 'object' ? JSON.stringify(text) : text
}

/** How long lines are collected before they are written at once, in milliseconds and characters. */
const COLLECTED = 100
const MOST_COLLECTED = 32 * 1024

/** In characters: what may wait for a reader. Further lines are dropped, and counted. */
const MOST_PENDING = 256 * 1024

/** Takes texts for a descriptor. `flush` returns a promise while its reader takes nothing. */
interface LineSink {
  write(text: string): unknown
  flush(): unknown
}

/**
 * Opens a writer that collects lines, so that calls which end together cost one write. A warning or
 * an error is written at once, with what waits before it, and what is left when the process exits.
 * Never waits for a reader: what is too much for it is dropped, and `reportDropped` gets the number
 * of those lines once it reads again.
 */
export function openLineWriter(
  sink: LineSink,
  reportDropped: (lines: number) => void,
): LogOptions['write'] {
  let pending = ''
  let dropped = 0
  let isStalled = false
  let timer: NodeJS.Timeout | undefined
  const resume = () => {
    isStalled = false
    if (dropped > 0) reportDropped(dropped)
    dropped = 0
    flush()
  }
  const flush = () => {
    clearTimeout(timer)
    timer = undefined
    if (isStalled || pending === '') return
    const text = pending
    pending = ''
    const drained = writeAll(sink, text)
    isStalled = drained !== undefined
    drained?.then(resume)
  }
  process.on('exit', flush)
  return (text, level) => {
    if (pending.length + text.length > MOST_PENDING) {
      dropped += 1
      return
    }
    pending += text
    if (level === 'warn' || level === 'error' || pending.length > MOST_COLLECTED) flush()
    else timer ??= setTimeout(flush, COLLECTED)
  }
}

/** Returns what settles when the reader has taken all; undefined if it has, or is gone. */
function writeAll(sink: LineSink, text: string): Promise<unknown> | undefined {
  try {
    const waits = [sink.write(text), sink.flush()].filter(wait => wait instanceof Promise)
    return waits.length > 0 ? Promise.allSettled(waits) : undefined
  } catch {
    // Its reader is gone, or the disk is full.
    return undefined
  }
}
