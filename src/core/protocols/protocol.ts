import type { Endpoint } from '../catalog/models.ts'
import type { GatewayError } from '../errors.ts'
import { isObject } from '../kernel/json.ts'
import type { TextCall } from '../language/call.ts'
import type { Kind, Work } from '../language/work.ts'

/** What goes to the provider, but for its address and credentials. `path` follows the provider's base URL. */
export interface UpstreamRequest {
  path: string
  headers?: Record<string, string>
  body: Record<string, unknown>
}

/** One frame of a streamed answer. */
export interface Frame {
  event: string | null
  data: string
}

/** Reads one streamed answer: fed frames, it returns the parts that each completes. */
export interface Reader<Part> {
  read(frame: Frame): Part[]
  /** Whether the protocol's own terminal event has come. Nothing else means that an answer is whole. */
  readonly complete: boolean
  /**
   * What the end of the connection completes, for protocols whose last event cannot be told from the others. An answer that
   * was not whole by then stays not `complete`.
   */
  end?(): Part[]
}

/** What a caller may name by URL. */
export type Media = 'image' | 'audio' | 'video' | 'file'

/** How one provider family's answers are cut into frames: server-sent events, or AWS's binary event stream. */
export type Framing = 'sse' | 'aws-event-stream'

/** One provider family's way of speaking. It only translates: no clock, no network, no secrets. */
export interface Protocol<K extends Kind> {
  framing: Framing
  /** Whether a turn's `name` has a place of its own. Where it has not, it is sent as a prefix of the text. */
  takesNames: boolean
  /** What the provider fetches itself from a URL. Everything else is fetched here and sent as a data URL. */
  takesUrls: Media[]
  /** Whether the provider searches the web itself for this call, and does all that its `web_search_options` say. Without it nobody here does. */
  searches?(call: Work[K]['call'], endpoint: Endpoint): boolean
  /** The upstream request that carries the call. Throws 400 for what this protocol has no word for. */
  request(call: Work[K]['call'], endpoint: Endpoint): UpstreamRequest
  /** The parts of a whole answer. Throws `provider_unavailable` when it is none. */
  parts(body: unknown, call: Work[K]['call'], endpoint: Endpoint): Work[K]['part'][]
  /** A reader for one streamed answer. */
  reader(call: Work[K]['call'], endpoint: Endpoint): Reader<Work[K]['part']>
  /** What an upstream failure means to our caller. `header` reads one header of the answer, by its lower-case name. */
  failure(status: number, body: unknown, header?: (name: string) => string | null): GatewayError
}

/** Whether nothing is said of a search but by these words. */
export const searchesBy = (
  { params: { web_search_options: options } }: TextCall,
  words: string[],
): boolean => isObject(options) && Object.keys(options).every(word => words.includes(word))
