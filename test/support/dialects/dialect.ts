/** A client's request, independent of dialects. */
export interface ClientRequest {
  model: string
  stream: boolean
  system?: string
  text?: string
  /** A data URL, or one to fetch. */
  image?: string
  /** The names of tools that take a city and an id. */
  tools?: string[]
  /** A tool that must be called. */
  mustCall?: string
  schema?: Record<string, unknown>
  thinks?: boolean
  /** The previous answer as the client got it, and the results of its tools. */
  after?: { answer: ClientReading; results: string[] }
}

/** What a client reads from an answer, independent of dialects. */
export interface ClientReading {
  text: string
  thought: string
  calls: { id: string; name: string; input: unknown }[]
  finish: string | null
  tokens: { input: number; output: number } | null
  /** The answer in its own form, as the client would send it back. */
  own: unknown
  /** The failure: its status before the answer, or null if the answer broke off. */
  failure: { status: number | null; type: string } | null
}

/** An official client of one dialect that calls a gateway. */
export interface DialectClient {
  ask(base: string, key: string, asking: ClientRequest): Promise<ClientReading>
}

/** The parameters of every tool. */
export const PARAMETERS = {
  type: 'object' as const,
  properties: { city: { type: 'string' }, id: { type: 'integer' } },
  required: ['city'],
}

/** Creates an empty reading. */
export const createEmptyReading = (): ClientReading => ({
  text: '',
  thought: '',
  calls: [],
  finish: null,
  tokens: null,
  own: null,
  failure: null,
})
