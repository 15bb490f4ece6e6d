import type { Config } from '../config.ts'

/**
 * The part of a config that a running process can apply, and the names of changed settings that
 * need a restart.
 */
export interface Applicable {
  config: Config
  needsRestart: string[]
}

/**
 * Returns what a running process can apply of `next`: everything except where it listens, its
 * public address, and how its store is opened.
 */
export function applicable({ server, storage }: Config, wanted: Config): Applicable {
  const config = { ...wanted, server, storage }
  return { config, needsRestart: changedSettings(config, wanted) }
}

/**
 * Lists the names of the settings in which two configs differ: `limits.max_tokens`,
 * `providers.openai`, `models`. Never their values.
 */
export const changedSettings = (before: Config, after: Config): string[] =>
  changedIn(before, after).flatMap(section => {
    const [a, b] = [membersOf(before, section), membersOf(after, section)]
    return a && b ? changedIn(a, b).map(name => `${section}.${name}`) : [section]
  })

const changedIn = (a: object, b: object): string[] =>
  [...new Set([...Object.keys(a), ...Object.keys(b)])].filter(
    name => !Bun.deepEquals(memberOf(a, name), memberOf(b, name)),
  )

function membersOf(config: Config, section: string): object | undefined {
  const value = memberOf(config, section)
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? value : undefined
}

// A provider may be named like a member that every object has.
const memberOf = (object: object, name: string): unknown =>
  Object.getOwnPropertyDescriptor(object, name)?.value
