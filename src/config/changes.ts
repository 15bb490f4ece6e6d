import type { Config } from '../config.ts'

/**
 * The part of a config that a running process can apply, and the names of changed settings that
 * need a restart.
 */
interface ApplicableConfig {
  config: Config
  needsRestart: string[]
}

/**
 * Returns what a running process can apply of `next`: everything except where it listens, its
 * public address, and how its store is opened. Whom it trusts it applies.
 */
export function toApplicableConfig({ server, storage }: Config, next: Config): ApplicableConfig {
  const { cors, console, list_all_models, trusted_proxies, metrics_key } = next.server
  const { metrics_key: _, ...started } = server
  const live = {
    ...{ cors, console, list_all_models, trusted_proxies },
    ...(metrics_key === undefined ? {} : { metrics_key }),
  }
  const opened = { ...storage, refusals: next.storage.refusals }
  const config = { ...next, server: { ...started, ...live }, storage: opened }
  return { config, needsRestart: listChangedSettings(config, next) }
}

/**
 * Lists the names of the settings in which two configs differ: `limits.max_tokens`,
 * `providers.openai`, `models`. Never their values.
 */
export const listChangedSettings = (before: Config, after: Config): string[] =>
  listChangedNames(before, after).flatMap(section => {
    const [a, b] = [getMembers(before, section), getMembers(after, section)]
    return a && b ? listChangedNames(a, b).map(name => `${section}.${name}`) : [section]
  })

const listChangedNames = (a: object, b: object): string[] =>
  [...new Set([...Object.keys(a), ...Object.keys(b)])].filter(
    name => !Bun.deepEquals(getMember(a, name), getMember(b, name)),
  )

function getMembers(config: Config, section: string): object | undefined {
  const value = getMember(config, section)
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? value : undefined
}

// A provider may be named like a member that every object has.
const getMember = (object: object, name: string): unknown =>
  Object.getOwnPropertyDescriptor(object, name)?.value
