import type { UsdPerMillionTokens } from '../../config/prices.ts'

/** A row of the generated data: one model at one provider. */
export interface EndpointRow {
  provider: string
  /** The provider's own name for it. */
  model: string
  /** Absent for the provider's own protocol. */
  protocol?: string
  /** Absent where no price is known. */
  prices?: UsdPerMillionTokens
  /** Absent where it is the model's. */
  context_length?: number
  max_completion_tokens?: number
  /** Absent where it is not known. */
  reasoning?: boolean
  quantization?: string
  region?: string
}

/** A row of the generated data: one model. */
export interface ModelRow {
  id: string
  name: string
  /**
   * The day of its release, ISO 8601. Where only the month is known it is the first. Absent where
   * it is not known.
   */
  created?: string
  context_length?: number
  /** Absent where it is not known what the model accepts beside text. */
  input?: string[]
  /** Absent for text alone. */
  output?: string[]
  reasoning?: { mandatory: boolean; supported_efforts?: string[] }
  endpoints: EndpointRow[]
}

/** The generated data: `bun run catalog` writes it. */
export interface CatalogData {
  /** The day of its generation, ISO 8601. */
  generated: string
  sources: { name: string; version: string; licence: string }[]
  /** Maps each alias to its slug. */
  aliases: Record<string, string>
  models: ModelRow[]
}
