// A sentence of the server: text between backticks is a name or a command.
export function Prose({ text }: { text: string }) {
  const parts = text.split('`');
  if (parts.length % 2 === 0) return <>{text}</>; // an odd number of backticks: leave the text as it is
  return <>{parts.map((part, index) => (index % 2 ? <code key={index}>{part}</code> : part))}</>;
}
