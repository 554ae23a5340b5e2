document.getElementById("save").addEventListener("click", () => {
  const text = document.getElementById("report").textContent;
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "application/json" }));
  link.download = "report.json";
  link.click();
  URL.revokeObjectURL(link.href);
});
