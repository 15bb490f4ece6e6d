import { GatewayError, invalid } from '../errors.ts'
import type { Cancellation } from '../kernel/cancellation.ts'
import type { Kind, Work } from '../language/work.ts'
import type { Media } from '../protocols/protocol.ts'
import { fetchMedia } from '../upstream/media.ts'
import type { KindOfWork } from './kinds.ts'
import type { InferenceWorld } from './world.ts'

/** Something that a call names by URL. */
export interface Named {
  kind: Media
  url: string
}

/** What one call may have fetched: so many things, and so many bytes in all. */
const MOST = 32
const LARGEST_OF_ONE = 20 * 1024 * 1024
const LARGEST_OF_ALL = 64 * 1024 * 1024

/**
 * The call with everything in it that its provider does not fetch itself as a data URL. Fetched once, however many endpoints are tried:
 * `media` is what was. The call itself, and no promise, where there is nothing to fetch, as in most. Throws 400 for what cannot be had.
 */
export function withMedia<K extends Kind>(
  gateway: InferenceWorld,
  media: Map<string, string>,
  cancellation: Cancellation,
  kind: KindOfWork<K>,
  call: Work[K]['call'],
  takesUrls: Media[],
): Work[K]['call'] | Promise<Work[K]['call']> {
  const wanted = kind.named(call).filter(one => !takesUrls.includes(one.kind) && /^https?:/i.test(one.url))
  return wanted.length === 0 ? call : fetched(gateway, media, cancellation, wanted).then(urls => kind.withUrls(call, urls))
}

async function fetched(
  gateway: InferenceWorld,
  media: Map<string, string>,
  cancellation: Cancellation,
  wanted: Named[],
): Promise<Map<string, string>> {
  const missing = [...new Map(wanted.map(one => [one.url, one])).values()].filter(one => !media.has(one.url))
  if (missing.length > MOST) throw invalid(`The request names more than ${MOST} things by URL that have to be fetched for this provider`)
  const largest = Math.min(LARGEST_OF_ONE, Math.floor(LARGEST_OF_ALL / Math.max(missing.length, 1)))
  const branches = cancellation.branches(missing.length)
  const fetching = missing.map(async ({ kind, url }, i) => {
    const { media_type, data } = await fetchMedia(gateway, url, { kind, largest, ...(branches[i] ? { cancellation: branches[i] } : {}) })
    media.set(url, `data:${media_type};base64,${data}`)
  })
  try {
    await Promise.all(fetching)
  } finally {
    for (const branch of branches) branch.cancel(OVER)
  }
  return media
}

const OVER = new GatewayError('unmapped', 'The downloads are over')
