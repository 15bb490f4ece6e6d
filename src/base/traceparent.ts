/** The context of a trace that a caller has begun (W3C Trace Context, 3.2). */
export interface TraceContext {
  trace_id: string
  parent_span_id: string
}

// A later version may have more fields. Zeros alone are no ids.
const TRACEPARENT =
  /^(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-[0-9a-f]{2}(?:-.*)?$/

/** Parses the header `traceparent`. Null if there is none, or one of another form. */
export function parseTraceparent(header: string | null): TraceContext | null {
  const found = header === null || header.length > 512 ? null : TRACEPARENT.exec(header)
  const [, trace_id, parent_span_id] = found ?? []
  return trace_id && parent_span_id ? { trace_id, parent_span_id } : null
}

/** Renders the header for what is called within a span. */
export const renderTraceparent = ({ trace_id, parent_span_id }: TraceContext): string =>
  `00-${trace_id}-${parent_span_id}-01`
