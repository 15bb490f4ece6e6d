import { writeSync } from 'node:fs'
import { toPrintable, toPrintableJson } from '../core/kernel/printable.ts'

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
    write(`${render(now().toISOString(), of, event, facts)}\n`, of)
  }
}

// Two texts are joined: to copy the facts into one object costs more.
function renderJson(time: string, level: Level, event: string, facts: Facts): string {
  const head = JSON.stringify({ time, level, event })
  const rest = toPrintableJson(facts)
  return rest === '{}' ? head : `${head.slice(0, -1)},${rest.slice(1)}`
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

/** In milliseconds: how long lines are collected before they are written at once. */
const COLLECTED = 20

/**
 * Opens a writer that collects lines, so that calls which end together cost one write. A warning or
 * an error is written at once, with what waits before it, and what is left when the process exits.
 */
export function openLineWriter(descriptor: number): LogOptions['write'] {
  let pending = ''
  let timer: NodeJS.Timeout | undefined
  const flush = () => {
    clearTimeout(timer)
    timer = undefined
    const text = pending
    pending = ''
    if (text !== '') writeWhole(descriptor, text)
  }
  process.on('exit', flush)
  return (text, level) => {
    pending += text
    if (level === 'warn' || level === 'error') flush()
    else timer ??= setTimeout(flush, COLLECTED)
  }
}

/** A reader that takes nothing is given up after so many attempts: a log never stops calls. */
const MOST_ATTEMPTS = 1_000

function writeWhole(descriptor: number, text: string): void {
  let bytes = Buffer.from(text)
  for (let attempt = 0; bytes.length > 0 && attempt < MOST_ATTEMPTS; attempt++) {
    try {
      bytes = bytes.subarray(writeSync(descriptor, bytes))
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EAGAIN') return
    }
  }
}
