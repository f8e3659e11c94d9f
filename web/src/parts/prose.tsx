// A sentence of the server: what stands between backticks is a name or a command.
export function Prose({ text }: { text: string }) {
  const parts = text.split('`');
  if (parts.length % 2 === 0) return <>{text}</>; // one of them is alone: it is no mark
  return <>{parts.map((part, index) => (index % 2 ? <code key={index}>{part}</code> : part))}</>;
}
