import { Elysia } from 'elysia'
import type { Gateway } from '../../core/gateway.ts'
import { openMetrics } from '../../core/telemetry/metrics.ts'
import { nobody } from '../access.ts'
import { type Operation, operation } from '../operation.ts'

const siteOperation = (described: Omit<Operation, 'tag' | 'open'>) =>
  operation({ tag: 'Site', open: true, ...described })

/** Creates the routes for operators and their tools: health, readiness and metrics. */
export function site(gateway: Gateway) {
  const metrics = openMetrics(gateway)
  return new Elysia()
    .use(nobody())
    .get(
      '/health',
      () => health(gateway),
      siteOperation({ id: 'health', summary: 'Check that the process is alive', statuses: [200] }),
    )
    .get(
      '/ready',
      () => readiness(gateway),
      siteOperation({ id: 'ready', summary: 'Check that it accepts calls', statuses: [200, 503] }),
    )
    .get(
      '/metrics',
      () => new Response(metrics.text(), { headers: { 'content-type': metrics.contentType } }),
      siteOperation({
        id: 'metrics',
        summary: 'Get metrics for Prometheus',
        statuses: [200],
        produces: ['text/plain'],
      }),
    )
}

// The previous config stays in use, so the process is alive. But monitoring must see the rejection.
const health = ({
  instance: {
    configStatus: { rejected },
  },
}: Gateway) => ({ status: 'ok', ...(rejected ? { config: 'rejected' } : {}) })

function readiness(gateway: Gateway): Response {
  const why = gateway.traffic.calls.draining
    ? 'draining'
    : gateway.recorder.healthy
      ? undefined
      : 'the store takes no records'
  return Response.json({ status: why ?? 'ready' }, { status: why ? 503 : 200 })
}
