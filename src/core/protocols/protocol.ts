import type { Endpoint } from '../catalog/models.ts'
import type { GatewayError } from '../errors.ts'
import type { Kind, Work } from '../inference/call.ts'

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
}

/** One provider family's way of speaking. It only translates: no clock, no network, no secrets. */
export interface Protocol<K extends Kind> {
  framing: 'sse'
  /** Whether a turn's `name` has a place of its own. Where it has not, it is sent as a prefix of the text. */
  takesNames: boolean
  /** The upstream request that carries the call. */
  request(call: Work[K]['call'], endpoint: Endpoint): UpstreamRequest
  /** The parts of a whole answer. Throws `provider_unavailable` when it is none. */
  parts(body: unknown, call: Work[K]['call']): Work[K]['part'][]
  /** A reader for one streamed answer. */
  reader(call: Work[K]['call']): Reader<Work[K]['part']>
  /** What an upstream failure means to our caller. */
  failure(status: number, body: unknown): GatewayError
}
