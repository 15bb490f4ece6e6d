import { Type } from '@sinclair/typebox'
import { closed } from '../../../base/schema-builders.ts'
import { buildHeaders, buildHeadersSchema, EndpointUrl, joinUrl } from '../config.ts'
import type { DestinationKind } from '../kind.ts'
import { createOtlpKind } from '../otlp/kind.ts'
import { listAttributes, type OtlpExport, toNanoseconds } from '../otlp.ts'
import { writeJson } from '../text.ts'

const CONFIG = Type.Object({ endpoint: EndpointUrl, headers: buildHeadersSchema() }, closed)

/**
 * The endpoint is the URL of traces, as the public service has it. An address of a host alone gets
 * the path of the OTLP specification.
 */
function findUrl({ endpoint }: { endpoint: string }): string {
  const { pathname, search } = new URL(endpoint)
  return pathname === '/' && search === '' ? joinUrl(endpoint, '/v1/traces') : endpoint
}

/** A collector, or any receiver of OTLP/HTTP. Its own headers authenticate. */
export const otelCollector: DestinationKind<typeof CONFIG> = {
  ...createOtlpKind({
    type: 'otel-collector',
    config: CONFIG,
    secrets: [],
    address: ['endpoint'],
    findUrl,
  }),
  renderTest: ({ now, serviceName }, config) => ({
    method: 'POST',
    url: findUrl(config),
    headers: buildHeaders(config.headers, { 'content-type': 'application/json' }),
    body: writeJson(buildTestExport(now, serviceName)),
  }),
}

/** One span that says what it is (wire reference G.6). */
const buildTestExport = (now: number, serviceName: string): OtlpExport => ({
  resourceSpans: [
    {
      resource: { attributes: listAttributes({ 'service.name': serviceName }) },
      scopeSpans: [
        {
          scope: { name: serviceName },
          spans: [
            {
              traceId: '1'.padStart(32, '0'),
              spanId: '1'.padStart(16, '0'),
              name: 'openrouter-connection-test',
              kind: 1,
              startTimeUnixNano: toNanoseconds(now),
              endTimeUnixNano: toNanoseconds(now + 1),
              attributes: [],
              status: { code: 1 },
            },
          ],
        },
      ],
    },
  ],
})
