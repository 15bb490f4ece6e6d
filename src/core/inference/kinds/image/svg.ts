/** Whether a text begins as an SVG document: before its root are a prolog and comments. */
export const isSvg = (head: string): boolean =>
  /^\ufeff?\s*(?:<\?xml[^>]{0,200}\?>\s*)?(?:<!--[^>]{0,2000}-->\s*)?(?:<!DOCTYPE svg[^>]{0,500}>\s*)?<svg[\s>]/i.test(
    head,
  )

/**
 * Whether an SVG does more than draw: scripts, handlers of events, pages within it, addresses of
 * scripts, and entities, which may hide any of these or fill the memory of a reader. A picture that
 * a model draws has none of them.
 */
export const isActiveSvg = (svg: string): boolean =>
  /<\s*(?:[\w-]{1,64}:)?(?:script|foreignObject|iframe|object|embed|handler|listener)[\s/>]|[\s"'/]on[a-z]{2,40}\s{0,20}=|(?:java|vb)script\s{0,20}:|data:\s{0,20}text\/html|<!(?:ENTITY|ATTLIST)/i.test(
    svg,
  )
