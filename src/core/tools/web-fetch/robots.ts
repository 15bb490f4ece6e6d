import type { Egress, UpstreamWorld } from '../../upstream/world.ts'
import { ToolFailure, type UseLimit } from '../use-limit.ts'
import { type FetchedPage, fetchPage, ROBOT } from './fetch-page.ts'

/** What a site lets robots read. */
interface RobotRules {
  allows(url: string): boolean
  /** Until when they hold, in steady milliseconds. */
  until: number
}

/** As much of a `robots.txt` is read; a search engine reads 500 KiB (RFC 9309, 2.5). */
const LARGEST = 512 * 1024
/** An hour: RFC 9309 (2.4) allows a day. */
const LIFETIME = 3_600_000
const MOST_SITES = 1_000

// The rules of sites, by the way out through which they were read.
const caches = new WeakMap<Egress, Map<string, RobotRules>>()

/**
 * Throws `ToolFailure` if the site's `robots.txt` does not let a robot read the URL. It is fetched
 * as untrusted as the page itself, once an hour (RFC 9309).
 */
export async function checkRobots(
  world: UpstreamWorld,
  url: string,
  limit: UseLimit,
): Promise<void> {
  const { origin } = new URL(url)
  const sites = caches.get(world.egress) ?? new Map<string, RobotRules>()
  caches.set(world.egress, sites)
  const known = sites.get(origin)
  const rules =
    known && known.until > world.clock.ticks() ? known : await readRules(world, origin, limit)
  // The oldest goes first, so that the list stays short.
  sites.delete(origin)
  sites.set(origin, rules)
  for (const oldest of sites.keys()) {
    if (sites.size <= MOST_SITES) break
    sites.delete(oldest)
  }
  if (!rules.allows(url)) throw new ToolFailure('The site’s robots.txt does not allow this page')
}

async function readRules(
  world: UpstreamWorld,
  origin: string,
  limit: UseLimit,
): Promise<RobotRules> {
  const request = { url: `${origin}/robots.txt`, maxBytes: LARGEST, checkPage: () => undefined }
  const page = await fetchPage(world, request, limit).catch(() => null)
  // Where the rules cannot be read, nothing is allowed; where there are none, everything is
  // (RFC 9309, 2.3.1).
  if (page === null || page.status >= 500 || page.status === 429)
    throw new ToolFailure('The site’s robots.txt cannot be read')
  const until = world.clock.ticks() + LIFETIME
  if (page.status !== 200) return { allows: () => true, until }
  return { allows: await parseRules(page, origin), until }
}

async function parseRules(page: FetchedPage, origin: string): Promise<RobotRules['allows']> {
  // Loaded on first use: few calls need it, and every start would pay for it.
  const { default: parseRobots } = await import('robots-parser')
  const robots = parseRobots(`${origin}/robots.txt`, keepRules(page.bytes.toString('utf8')))
  return url => robots.isAllowed(url, ROBOT) ?? true
}

/** The most rules of one site, the most characters of one, and of all with a wildcard. */
const MOST_RULES = 5_000
const LONGEST_RULE = 512
const MOST_WILDCARDS = 10_000

/**
 * Returns the lines that hold rules, as many as are compared with a URL in milliseconds: a rule with
 * wildcards takes time with its length times the URL's.
 */
function keepRules(text: string): string {
  const kept: string[] = []
  let [rules, wildcards] = [0, 0]
  for (const line of text.split(/[\r\n]+/)) {
    const name = /^\s*(user-agent|allow|disallow)\s*:/i.exec(line.slice(0, 100))?.[1]
    if (name === undefined || line.length > LONGEST_RULE) continue
    if (name.toLowerCase() !== 'user-agent' && ++rules > MOST_RULES) break
    if (line.includes('*')) wildcards += line.length
    if (line.includes('*') && wildcards > MOST_WILDCARDS) continue
    kept.push(line)
  }
  return kept.join('\n')
}
