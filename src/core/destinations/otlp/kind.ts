import type { Static, TObject } from '@sinclair/typebox'
import { buildHeaders, fillConfig } from '../config.ts'
import { judgeOtlp } from '../judge.ts'
import type { DeliveryRequest, DestinationKind } from '../kind.ts'
import { buildOtlp, type OtlpExport, type OtlpOptions } from '../otlp.ts'
import { writeJson } from '../text.ts'
import { encodeOtlp } from './protobuf.ts'

/** A kind that takes OTLP/HTTP: where it listens, and how it knows who sends. */
export interface OtlpKind<Config extends TObject>
  extends Pick<DestinationKind<Config>, 'type' | 'config' | 'secrets' | 'address'> {
  /** Protocol Buffers where the vendor documents no JSON. */
  encoding?: 'json' | 'protobuf'
  findUrl(config: Static<Config>): string
  /** The headers that the kind sends itself, by their names in lower case. */
  buildHeaders?(config: Static<Config>): Record<string, string>
  buildOptions?(config: Static<Config>): OtlpOptions
}

/** Every span is an entry of its own, and large ones have megabytes. */
const BATCH = 50

/**
 * Creates a kind of destination that takes OTLP/HTTP. Its test is an export without spans: the
 * vendor checks the credentials, and nothing appears there.
 */
export function createOtlpKind<Config extends TObject>(
  kind: OtlpKind<Config>,
): DestinationKind<Config> {
  const { type, config: schema, secrets, address } = kind
  const request = (config: Static<Config>, body: OtlpExport) => renderRequest(kind, config, body)
  return {
    ...{ type, config: schema, secrets, address },
    batchSize: BATCH,
    render(world, config, traces) {
      const filled = fillConfig(schema, config)
      return request(filled, buildOtlp(world, traces, kind.buildOptions?.(filled)))
    },
    renderTest: (_, config) => request(fillConfig(schema, config), { resourceSpans: [] }),
    judge: judgeOtlp,
  }
}

function renderRequest<Config extends TObject>(
  kind: OtlpKind<Config>,
  config: Static<Config>,
  body: OtlpExport,
): DeliveryRequest {
  const isBinary = kind.encoding === 'protobuf'
  return {
    method: 'POST',
    url: kind.findUrl(config),
    headers: buildHeaders((config as { headers?: Record<string, string> }).headers, {
      ...kind.buildHeaders?.(config),
      'content-type': isBinary ? 'application/x-protobuf' : 'application/json',
    }),
    body: isBinary ? encodeOtlp(body) : writeJson(body),
  }
}
